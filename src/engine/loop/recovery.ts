import { interruptOpenCalls } from '../../core/runs/end-run.ts';
import { checkCallKey } from '../../core/session/internal-calls.ts';
import { CRASH_LIMIT, type Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import { isLostOverPlan } from '../state/plan-sync.ts';
import type { SessionLog } from '../state/session-log.ts';

/**
 * How the last worker of a session failed: in this daemon, by a bug or a disk error; or with a daemon that crashed.
 * `against`: how many crashed in a row with evidence against this session; missing if there is none.
 */
export type PreviousFailure =
  | { after: 'error' | 'trouble'; error: string }
  | { after: 'crash'; crashes?: number; error?: string };

/**
 * Logs what the last daemon left open, and what was cut off the end of the log; the loop then continues as from any
 * other state. Durable before anything is retried: a cause of crashes is counted before it can crash the daemon again.
 */
export async function recordRecovery(
  sessionLog: SessionLog,
  last: PreviousFailure | undefined,
  log: SessionPorts['log'],
): Promise<void> {
  const { session, newCuts } = sessionLog;
  const open = describeOpenWork(session);
  const cut = newCuts.length > 0 && { cut: [...newCuts] };
  if (cut)
    log('warn', `the event log was cut off after event ${session.seq}; the rest is kept in ${newCuts.join(', ')}`);
  if (open.length === 0 && !cut) return;
  const how = session.lastStopSeq > 0 && session.lastStopSeq === session.seq ? ({ after: 'stop' } as const) : last;
  await sessionLog.record([{ type: 'recovery.started', open, ...(how ?? { after: 'crash' as const }), ...cut }]);
  await sessionLog.sync();
}

/** Whether this session crashed CRASH_LIMIT daemons in a row, the last of them while reading `plan.json`. */
export const isPlanToBlame = (last: PreviousFailure | undefined): boolean =>
  last?.after === 'crash' && (last.crashes ?? 0) >= CRASH_LIMIT && isLostOverPlan(last.error ?? '');

/** Logs an orderly stop if something is left open, so that the next daemon does not take it for a crash. */
export async function recordShutdown(sessionLog: SessionLog): Promise<void> {
  const open = describeOpenWork(sessionLog.session);
  if (open.length > 0) await sessionLog.record([{ type: 'daemon.stopped', open }]);
}

/** A browser that a person used ends with its daemon: nobody has it after that. */
export async function recordHoldEnded(sessionLog: SessionLog): Promise<void> {
  if (!sessionLog.session.browserHold) return;
  await sessionLog.record([{ type: 'browser.returned', by: 'daemon', reason: 'daemon_ended' }]);
}

/** Closes the calls that were cut short by the end of the daemon, or of the session's folder. */
export function interruptedCalls(session: Session, stopReason: string): EventBody[] {
  return interruptOpenCalls(session, stopReason).filter(
    (event) => event.type === 'tool.interrupted' && event.outcome === 'unknown',
  );
}

/**
 * Logs the end of checks that an earlier daemon began for `claim`, if an edit or a command has decided it since: nobody
 * fetches their results any more. `recorded`: the last events, which may have ended them.
 */
export async function endDroppedChecks(
  sessionLog: SessionLog,
  claim: Session['claim'],
  recorded: readonly EventBody[] = [],
): Promise<void> {
  if (!claim || sessionLog.session.claim?.step === claim.step) return;
  const why = 'the daemon ended while it ran, or this session was moved or copied';
  const isEnded = (key: string) => recorded.some((event) => event.type === 'tool.interrupted' && event.call === key);
  const open = claim.checks.flatMap((check, n) => (check?.state === 'started' ? [checkCallKey(claim, n)] : []));
  const events = open
    .filter((key) => !isEnded(key))
    .map((call): EventBody => ({ type: 'tool.interrupted', call, outcome: 'unknown', why }));
  await sessionLog.record(events);
}

/** The work in progress, in words. */
export function describeOpenWork({ run, turn, queue, unpublishedReplies, question }: Session): string[] {
  const next = run ? undefined : queue[0];
  return [
    ...(run ? [`the run of ${run.message}`] : []),
    ...(turn?.calls
      .filter((call) => call.state === 'started' && call.key !== question?.call)
      .map((call) => `the call ${call.key} (${call.name})`) ?? []),
    ...(next === undefined ? [] : [`the message ${next}`]),
    ...Object.keys(unpublishedReplies).map((id) => `the reply to ${id}`),
  ];
}
