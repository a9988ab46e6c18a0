import { z } from 'zod';
import { getOwn } from '../../../base/collections.ts';
import { errorCode, errorText, isDiskFull, UserError } from '../../../base/user-error.ts';

const TITLES = {
  400: 'Bad request',
  401: 'Token required',
  403: 'Not allowed',
  404: 'Not found',
  405: 'Method not allowed',
  408: 'Too slow',
  409: 'Conflict',
  412: 'Another plan is current',
  413: 'Too large',
  415: 'Wrong content type',
  422: 'Not accepted',
  426: 'WebSocket expected',
  429: 'Too many messages wait',
  431: 'Headers too large',
  500: 'Internal error',
  503: 'Not available',
} as const;
export type ProblemStatus = keyof typeof TITLES;

/** The parts of every message to a person: what was wanted, what came, what to do. */
export type ProblemParts = { wanted: string; came: string; todo: string };

/** A request that is answered with a problem (RFC 9457). */
export class HttpProblem extends Error {
  readonly status: ProblemStatus;
  readonly parts: ProblemParts;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: ProblemStatus, parts: ProblemParts, headers: Readonly<Record<string, string>> = {}) {
    super(`Expected: ${parts.wanted}. Got: ${parts.came.replace(/\.$/, '')}. ${parts.todo}`);
    this.name = 'HttpProblem';
    this.status = status;
    this.parts = parts;
    this.headers = headers;
  }
}

type Fault = { status: ProblemStatus; wanted: string; todo: string };

/** The client's errors, by name, since importing their classes would load the client. */
const FAULTS: Readonly<Record<string, Fault>> = {
  NoSuchSession: { status: 404, wanted: 'an existing session', todo: 'GET /api/sessions lists all sessions.' },
  NoSuchFile: {
    status: 404,
    wanted: 'an existing file or folder of work/',
    todo: 'GET /api/sessions/{session}/files lists them.',
  },
  NotInPlan: {
    status: 404,
    wanted: 'a step or revision of the plan',
    todo: 'GET /api/sessions/{session}/plan has it.',
  },
  FileTooLarge: { status: 413, wanted: 'a smaller file', todo: 'Send a smaller one.' },
  NoSuchApproval: {
    status: 409,
    wanted: 'a call that is waiting for approval',
    todo: 'GET /api/sessions/{session}/approvals lists them.',
  },
  NoSuchSchedule: { status: 404, wanted: 'an existing schedule', todo: 'GET /api/schedules lists them.' },
  MessageConflict: {
    status: 409,
    wanted: 'a different Idempotency-Key for each message',
    todo: 'Send it again with a new key.',
  },
  DaemonState: { status: 409, wanted: 'a daemon in a suitable state', todo: 'See: agentctl status' },
};

/** The reasons why an edit of a plan was refused. */
const PLAN_FAULTS: Readonly<Record<string, Fault>> = {
  forbidden: {
    status: 403,
    wanted: 'an edit by somebody who may give instructions here',
    todo: 'Ask the owner of the workspace: "senders" in agentd.json or session.json.',
  },
  none: { status: 404, wanted: 'a plan', todo: 'Send a message: a task makes a plan.' },
  other: { status: 412, wanted: 'an edit of the current plan', todo: 'Read the plan again.' },
  unknown: { status: 409, wanted: 'a known revision', todo: 'Read the plan again.' },
  invalid: { status: 422, wanted: 'a plan, as in plan.json', todo: 'Correct it and send it again.' },
};

/** Turns any error into a problem. Internal errors go to `complain`; the caller does not see their text. */
export function problemOf(error: unknown, complain: (text: string) => void): HttpProblem {
  if (error instanceof HttpProblem) return error;
  if (error instanceof UserError) {
    const why = 'why' in error && typeof error.why === 'string' ? getOwn(PLAN_FAULTS, error.why) : undefined;
    const other: Fault = isDiskFull(error)
      ? { status: 503, wanted: 'free disk space', todo: 'Free some space, then try again.' }
      : { status: 422, wanted: 'a request that can be carried out', todo: 'Fix that, then try again.' };
    const { status, wanted, todo } = why ?? getOwn(FAULTS, error.name) ?? other;
    return new HttpProblem(status, { wanted, came: error.message, todo });
  }
  complain(`A request failed: ${error instanceof Error ? (error.stack ?? error.message) : errorText(error)}`);
  return new HttpProblem(500, {
    wanted: 'an answer',
    came: `an internal error${errorCode(error) ? ` (${errorCode(error)})` : ''}`,
    todo: 'See the standard error of the server, and report it.',
  });
}

/** The fields of RFC 9457, and the parts of `detail` one by one. */
export const ProblemBody = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().describe('The whole problem as text.'),
  wanted: z.string(),
  came: z.string(),
  do: z.string(),
});

export function problemBody({ status, message, parts }: HttpProblem): z.infer<typeof ProblemBody> {
  const { wanted, came, todo } = parts;
  return { type: 'about:blank', title: TITLES[status], status, detail: message, wanted, came, do: todo };
}

export function problemResponse(problem: HttpProblem): Response {
  return new Response(`${JSON.stringify(problemBody(problem))}\n`, {
    status: problem.status,
    headers: { ...problem.headers, 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  });
}
