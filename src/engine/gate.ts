import { denyByRule, NOBODY, verdictOn } from '../core/approval.ts';
import type { Call, Session } from '../core/session.ts';
import { hashOfCall } from '../protocol/approval.ts';
import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { clip } from '../protocol/recorded.ts';
import type { Ledger } from './ledger.ts';
import { isTheirCheck, outsideToolbox } from './offered-tools.ts';
import { folderOf } from './perform.ts';
import type { Permit, World } from './ports.ts';

/** Code points of a call that are put on record beside its arguments, for people to read. */
const SHOWN = 20_000;
const MINUTE_MS = 60_000;

/**
 * What stands between a call that has not begun and its beginning: nothing, or the events that say that its toolbox does not have
 * it, that a rule denies it, or that a person is asked. An approval opens it for the call it was given to, and for no other; a rule
 * that denies closes it again. Every call passes here: those of tools, of our own ones, and checks.
 */
export async function gate(
  call: Call,
  world: World,
  ledger: Ledger,
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { session } = ledger;
  const missing = outsideToolbox(session, call, world, rules);
  if (missing !== undefined)
    return [{ type: 'tool.finished', call: call.key, ok: false, output: { text: missing }, ms: 0 }];
  const folder = folderOf(session, call);
  const { store } = world;
  const caller = { work: () => store.work(folder), top: () => store.work(undefined), signal };
  const permit = await world.tools.permit(call, caller);
  if (permit.is === 'deny') return [denyByRule(call.key, permit.why)];
  if (permit.is === 'allow' || isApproved(session, call, folder) || isTheirs(session, call, permit)) return [];
  return asking(call, permit, world, session, folder);
}

/**
 * The same for events that begin calls of our own tools, which touch nothing but the record: the events as they are, or what stands
 * in their way. A call that they refuse themselves begins nothing.
 */
export async function gateOfEvents(
  events: EventBody[],
  world: World,
  ledger: Ledger,
  rules: Rules,
): Promise<EventBody[]> {
  const { signal } = new AbortController();
  for (const call of begunBy(events, ledger.session)) {
    const stops = await gate(call, world, ledger, rules, signal);
    if (stops.length > 0) return stops;
  }
  return events;
}

function begunBy(events: readonly EventBody[], { turn }: Session): Call[] {
  const refused = events.flatMap((event) => (event.type === 'tool.finished' && !event.ok ? [event.call] : []));
  const begun = events.flatMap((event) => (event.type === 'tool.started' ? [event.call] : []));
  return (turn?.calls ?? []).filter(
    ({ key, state }) => state === 'asked' && begun.includes(key) && !refused.includes(key),
  );
}

const asked = ({ name, args }: Call, folder: string | undefined) => ({
  tool: name,
  args,
  ...(folder !== undefined && { folder }),
});

function isApproved(session: Session, call: Call, folder: string | undefined): boolean {
  const given = verdictOn(session, call);
  return given?.verdict.decision === 'allow' && given.hash === hashOfCall(asked(call, folder));
}

/** A check that a person wrote into the plan is their own word. */
function isTheirs(session: Session, { key }: Call, permit: Permit & { is: 'ask' }): boolean {
  return !permit.rule && isTheirCheck(session, key);
}

function asking(
  call: Call,
  { why, shows, always }: Permit & { is: 'ask' },
  { clock }: World,
  { approvals, run }: Session,
  folder: string | undefined,
): EventBody[] {
  const minutes = run?.limits.approval_minutes ?? 0;
  const id = approvals.count + 1;
  const { key, name, args } = call;
  return [
    {
      type: 'approval.asked',
      ...{ call: key, id, name, args, why, always },
      ...(folder !== undefined && { folder }),
      hash: hashOfCall(asked(call, folder)),
      shows: clip(shows, SHOWN),
      expires_at: new Date(clock.now().getTime() + minutes * MINUTE_MS).toISOString(),
    },
    // Where nobody is to be asked the record says all the same what was denied.
    ...(minutes === 0
      ? [
          {
            type: 'approval.answered' as const,
            call: key,
            id,
            decision: 'deny' as const,
            by: 'nobody' as const,
            why: NOBODY,
          },
        ]
      : []),
  ];
}
