import { denyByRule, NOBODY, verdictOn } from '../core/approval.ts';
import { isCheck } from '../core/claim.ts';
import type { Call, Session } from '../core/session.ts';
import { hashOfCall } from '../protocol/approval.ts';
import type { EventBody } from '../protocol/event.ts';
import { clip } from '../protocol/recorded.ts';
import type { Ledger } from './ledger.ts';
import type { Permit, World } from './ports.ts';

/** Code points of a call that are put on record beside its arguments, for people to read. */
const SHOWN = 20_000;
const MINUTE_MS = 60_000;

/**
 * What stands between a call that has not begun and its beginning: nothing, or the events that say that a person is asked, or that
 * a rule denies it. An approval opens it for the call it was given to, and for no other; a rule that denies closes it again.
 */
export async function gate(
  call: Call,
  world: World,
  ledger: Ledger,
  folder: string | undefined,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { session } = ledger;
  const permit = await world.tools.permit(call, { work: () => world.store.work(folder), signal });
  if (permit.is === 'deny') return [denyByRule(call.key, permit.why)];
  if (permit.is === 'allow' || isApproved(session, call, folder) || isTheirs(session, call, permit)) return [];
  return asking(call, permit, world, session, folder);
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
function isTheirs({ claim, theirs }: Session, { key }: Call, permit: Permit & { is: 'ask' }): boolean {
  return !permit.rule && isCheck(key) && theirs.includes(`${claim?.step}:done_when`);
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
