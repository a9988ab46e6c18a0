import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { Event, EventOf, EventType } from '../../src/protocol/session/event.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import type { Story } from './life.ts';

const ofType = <T extends EventType>(events: Event[], type: T) =>
  events.filter((event): event is EventOf<T> => event.type === type);

export const planOfRecord = (events: Event[]): Plan | null => endOf(events).session.plan;

/** Everything that was promised and does not hold at the end of a story, in words. */
export function broken(story: Story): string[] {
  const end = endOf(story.store.hands.events());
  return PROMISES.flatMap((promise) => promise(story, end)).concat(
    story.outside.untrue,
    story.faults
      .filter((fault) => !story.outside.made.has(fault))
      .map((fault) => `a fault nobody made: ${stackOf(fault)}`),
  );
}

/** The record at the end of a story, reduced once for all promises. */
type End = {
  events: Event[];
  session: Session;
  /** Plans that made room for another, as they were then. */
  left: Map<string, Plan>;
};

function endOf(events: Event[]): End {
  const left = new Map<string, Plan>();
  let session = emptySession('demo');
  for (const event of events) {
    const { plan } = session;
    session = reduceEvent(session, event);
    if (plan && plan.id !== session.plan?.id) left.set(plan.id, plan);
  }
  return { events, session, left };
}

/** To promise one thing more, add to this list. */
const PROMISES: Array<(story: Story, end: End) => string[]> = [messages, replies, calls, plans, edits];

const stackOf = (fault: unknown) => (fault instanceof Error ? fault.stack : String(fault));

function messages({ store, actions }: Story, { events, session }: End): string[] {
  const received = ofType(events, 'message.received').map((event) => event.name);
  return [
    ...actions.dropped.flatMap((name) => {
      const times = received.filter((one) => one === name).length;
      return times === 1 ? [] : [`${name} was received ${times} times`];
    }),
    ...actions.bad.flatMap((name) => (store.hands.rejected().has(name) ? [] : [`${name} was not refused`])),
    ...store.hands.waiting().map((name) => `${name} is still in inbox/`),
    ...(session.run ? [`the run of ${session.run.message} never ends`] : []),
    ...session.unanswered.map((id) => `${id} has no reply`),
  ];
}

function replies({ store, actions }: Story, { events }: End): string[] {
  const committed = ofType(events, 'reply.committed');
  const present = new Map([...actions.consumed, ...store.hands.replies()]);
  const wanted = [...actions.dropped, ...actions.bad];
  // What waited for its settings goes on once they hold, with a reply of its own.
  const resumed = ofType(events, 'run.resumed').flatMap(({ by, name }) => (by === 'daemon' && name ? [name] : []));
  const strangers = [...present.keys()]
    .filter((name) => !wanted.includes(name) && !resumed.includes(name))
    .map((name) => `a reply to nobody: ${name}`);
  const twice = [...actions.consumed.keys()]
    .filter((name) => store.hands.replies().has(name))
    .map((name) => `${name} was replied to again after its reply was read`);
  return [
    ...wanted.flatMap((name) => {
      const replied = committed.filter((event) => event.reply.id === name);
      if (replied.length !== 1) return [`${name} has ${replied.length} replies in the event log`];
      if (!present.has(name)) return [`${name} has no reply file`];
      return replied[0] && present.get(name) !== formatReplyFile(replied[0].reply)
        ? [`the reply of ${name} is not what was committed`]
        : [];
    }),
    ...strangers,
    ...twice,
  ];
}

function calls({ outside }: Story, { events }: End): string[] {
  const started = ofType(events, 'tool.started').filter((event) => event.replay === 'never');
  const ended = [...ofType(events, 'tool.finished'), ...ofType(events, 'tool.interrupted')];
  return [
    ...[...outside.ran].filter(([, times]) => times > 1).map(([args, times]) => `${args} ran ${times} times`),
    ...[...outside.ran.keys()]
      .filter((args) => !started.some((event) => event.args === args))
      .map((args) => `${args} ran and is not in the event log`),
    ...ofType(events, 'tool.finished').flatMap(({ call, ok }) => {
      const command = [...outside.commands].find(([folder]) => folder.endsWith(`/${call}`))?.[1];
      if (!command) return [];
      if (command.fate === 'unknown')
        return [`nobody knows what became of ${call}, and it is in the event log as finished`];
      return ok === command.ends.ok ? [] : [`the call ${call} ended otherwise than is in the event log`];
    }),
    ...started.flatMap(({ call }) => {
      const starts = started.filter((event) => event.call === call).length;
      const ends = ended.filter((event) => event.call === call).length;
      return starts === 1 && ends === 1 ? [] : [`the call ${call} has ${starts} starts and ${ends} ends`];
    }),
  ];
}

function plans({ store }: Story, end: End): string[] {
  const { plan } = end.session;
  const text = store.hands.planText();
  const wrong: string[] = [];
  if (text !== (plan ? formatPlanFile(plan) : undefined))
    wrong.push(`plan.json is not the plan of the event log: ${text} instead of ${plan && formatPlanFile(plan)}`);
  if (text !== undefined && !Plan.safeParse(JSON.parse(text)).success) wrong.push('plan.json is not a plan');
  for (const [id, left] of end.left)
    if (store.hands.plans().get(id) !== formatPlanFile(left)) wrong.push(`plans/${id}.json is not the plan that left`);
  return wrong;
}

/** Every save is in the event log, or, where its plan had left already, in history; and the event log puts no deed in a person's hands. */
function edits({ actions, outside, store }: Story, { events, session }: End): string[] {
  const byHand = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const record = JSON.stringify(byHand);
  const current = session.plan?.id;
  const lost = actions.saves.filter(({ token, plan }) => {
    if (record.includes(token)) return false;
    const kept = outside.history.some((text) => text.includes(token));
    return !(kept && (plan !== current || record.includes('another plan')));
  });
  // Where nobody saved anything, not even a save that was not taken over may be reported.
  const dreamt = actions.saved === 0 ? byHand.flatMap((event) => event.ignored) : [];
  const invented = byHand
    .flatMap((event) => event.changes)
    .filter((change) =>
      change.what === 'status' ? !actions.statuses.has(`${change.step}=${change.to}`) : actions.saved === 0,
    );
  return [
    ...lost.map(
      (save) =>
        `the save ${save.token} is lost${store.hands.planText()?.includes(save.token) ? ' (but in the file)' : ''}`,
    ),
    ...dreamt.map((ignored) => `nobody saved what is said to have been: ${ignored}`),
    ...invented.map((change) => `nobody did this by hand: ${JSON.stringify(change)}`),
  ];
}
