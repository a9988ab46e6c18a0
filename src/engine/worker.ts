import { abortsNow } from '../core/answers.ts';
import { type Decision, decide, decideMeanwhile } from '../core/decide.ts';
import { entryOf } from '../core/keyed.ts';
import { parking } from '../core/parking.ts';
import { replyText } from '../core/reply.ts';
import { interruptions } from '../core/rest.ts';
import { MOST_SETBACKS, type Session } from '../core/session.ts';
import { waitsForSettings } from '../core/settings-wait.ts';
import { isStalled, stalledRest } from '../core/stalled.ts';
import type { Rules } from '../protocol/config.ts';
import { errorText, isFull } from '../protocol/errors.ts';
import type { EventBody } from '../protocol/event.ts';
import { NO_NOTES } from '../protocol/notes.ts';
import { own } from '../protocol/own.ts';
import { admit, hasRoom } from './admit.ts';
import { approvalDesk } from './approval-desk.ts';
import { hearChildren, sendToChild } from './children.ts';
import { circling } from './circling.ts';
import { gate, gateOfEvents } from './gate.ts';
import { type Ledger, openLedger } from './ledger.ts';
import { oneAtATime, oneLoop } from './lock.ts';
import { steadyNotes } from './notes.ts';
import { withFiles } from './offered-files.ts';
import { pausesOf } from './pauses.ts';
import { act, think } from './perform.ts';
import { planDesk } from './plan-desk.ts';
import type { Model, World } from './ports.ts';
import { tidyCalls } from './tidy-calls.ts';

/** How soon an inbox is looked at again while a file in it is not ready. */
const PENDING_MS = 100;
/** How soon a run that waits for room on the disk asks again. */
const ROOM_MS = 1000;
/** How soon a run that waits for child sessions looks at them again, whether it was woken or not. */
const CHILDREN_MS = 30_000;
/** No pause is longer than the longest an endpoint may wish for. */
const LONGEST_PAUSE_MS = 3_600_000;
const STOPPED = 'the daemon was stopped';
const NOTHING_TAKEN = { pending: false, more: false };

/** The one worker of a session: wakes it, beats until it rests, hears what comes in meanwhile. */
export type Worker = {
  /**
   * Something may have changed: look. Costs nothing to call too often; a wake is never lost. Nothing of the session runs before
   * this returns.
   */
  wake(): void;
  /** An earlier daemon left something open in it. */
  readonly begun: boolean;
  /** Nothing is going on, and nothing is due that the session would have to stay open for. */
  readonly idle: boolean;
  /** Milliseconds until it has to be woken, where a time is waited for that nothing else tells. */
  readonly due: number | null;
  /** Ends the beat: the call in flight may take `graceMs`, then it is aborted and put on record as interrupted, with `why`. */
  stop(graceMs: number, why?: string): Promise<void>;
};

/**
 * How the last worker of a session ended: in this daemon, by an error of the code or by the disk; or with a daemon that was lost. `alone`:
 * how many were lost in a row while nothing else was at work; 0: what was counted turned out to be nobody's doing.
 */
export type Fault = { after: 'error' | 'trouble'; error: string } | { after: 'crash'; alone?: number; error?: string };

/**
 * The beat of one session: admit, decide, perform, record, fold, until there is nothing left to do. `rules` is asked anew each
 * time it begins to beat. What goes wrong here stays here: `onFault` hears of it, and the next wake reads everything from disk
 * again; whoever opens the next worker says what it was (`last`).
 */
export async function openWorker(
  world: World,
  rules: () => Promise<Rules>,
  onFault: (error: unknown) => void,
  last?: Fault,
): Promise<Worker> {
  const { store, clock } = world;
  const ledger = await openLedger(store.name, store.journal, store.snapshots, world.seal, world.step);
  const exclusively = oneAtATime();
  const goesRound = circling();
  const desk = planDesk(store.plan, ledger, clock, (task) =>
    exclusively(task).catch((error) => world.log('warn', `plan.json lags behind: ${errorText(error)}`)),
  );

  const approvals = approvalDesk(store.approvals, ledger, (text) => world.log('warn', text));
  const pauses = pausesOf(clock, LONGEST_PAUSE_MS);
  const deadlines = pausesOf(clock, Number.POSITIVE_INFINITY);
  const withNotes = steadyNotes(() => world.notes?.() ?? NO_NOTES);
  let woken = false;
  /** More is in the inbox than there is room for. */
  let held = false;
  /** Everything that was dropped before this worker began is on record. */
  let caughtUp = false;
  const loop = oneLoop(beats, fault, rest);
  let stopping = false;
  let broken = false;
  let inFlight: AbortController | null = null;
  let place: (() => void) | null = null;
  let queueing = false;
  let glancing = false;
  /** The last look beside a call in flight failed, and was told of. */
  let unheard = false;
  /** Nothing got further yet than where the last daemon was lost. */
  let stuck = false;
  /** What is set aside is so, with its reply, before `plan.json` is looked at: that may be what the last daemons were lost over. */
  let careful = last?.after === 'crash' && (last.alone ?? 0) >= MOST_SETBACKS;
  let ending: Promise<void> | null = null;
  let why = STOPPED;
  /** `patient`: whoever closes the worker may keep the time for it. */
  let alarm: { at: number; off: () => void; patient: boolean } | null = null;

  function fault(error: unknown): void {
    broken = true;
    onFault(error);
  }

  /** What keeps us from hearing while a call is in flight ends no call: whoever looks after it meets the same, with its end on record. */
  function troubled(error: unknown): void {
    unheard = true;
    world.trouble?.(error);
  }

  function heardAgain(): void {
    if (unheard) world.trouble?.(null);
    unheard = false;
  }

  function wake(): void {
    woken = true;
    if (stopping || broken) return;
    if (loop.running === null) {
      loop.start();
      world.activity?.('busy');
    } else if (inFlight && !glancing) {
      // One glance sees all that came in before it: a hundred thousand wakes must not line up for one each.
      glancing = true;
      void exclusively(glance).catch(troubled);
    }
  }

  function rest(): void {
    leavePlace();
    if (woken && !stopping && !broken) wake();
    else if (!stopping && !broken) world.activity?.('quiet');
  }

  function leavePlace(): void {
    place?.();
    place = null;
  }

  /** Wakes at the earliest time that was asked for: a retry must not put off a file that is about to be ready. */
  function later(ms: number, patient = false): void {
    const at = clock.elapsed() + ms;
    if (alarm) alarm.patient &&= patient;
    if (alarm && alarm.at <= at) return;
    const isPatient = patient && (alarm?.patient ?? true);
    alarm?.off();
    const off = clock.after(ms, () => {
      alarm = null;
      wake();
    });
    alarm = { at, off, patient: isPatient };
  }

  /** A reply names what goes on after it. */
  const withJobs = (settled: Rules): Rules => (world.jobs ? { ...settled, jobs: world.jobs.running() } : settled);

  /** Beats until the session rests, waits for a time, or the daemon goes down. */
  async function beats(): Promise<void> {
    for (;;) {
      // Read anew each time: what a person has just forbidden holds for the next call.
      const settled = await rules();
      const ruled = learned(withNotes(ledger.session, withJobs(settled)), world.model, ledger.session);
      const decision = await exclusively(() => beat(ruled));
      if (ledger.unkept === 'due') await exclusively(keep);
      if (stuck && ledger.session.setbacks.gotOn) {
        stuck = false;
        world.activity?.('got on');
      }
      if (!woken) heardAgain();
      if (stopping || decision.do === 'rest') return;
      if (decision.do === 'think' || decision.do === 'act') {
        if (!(await performed(decision, ruled))) return;
        // What could not be read beside the call stops the work here if it still cannot be.
        if (unheard) await rules();
      }
    }
  }

  /** One decision, and all of it that needs no waiting. `heard`: people were listened to just before. */
  async function beat(ruled: Rules, heard = false): Promise<Decision> {
    careful &&= isSettingAside(ledger.session, ruled);
    if (!careful && (woken || (held && hasRoom(ledger.session)))) await look(ruled);
    const decision = timely(
      unstalled(
        ledger.step('deciding', () => decide(ledger.session, ruled)),
        ruled,
      ),
    );
    // A stop that was dropped while nobody was there outranks what a recovery would go on with.
    if ((decision.do === 'think' || decision.do === 'act') && !caughtUp && woken) return beat(ruled);
    if (decision.do === 'record') {
      if (!heard && !careful && rests(decision) && (await changedByHand())) return beat(ruled, true);
      const events = await gateOfEvents(decision.events, world, ledger, ruled);
      await ledger.record(await approvals.kept(await withFiles(store, ledger.session, events)));
      await approvals.flush();
    } else if (decision.do === 'publish') await publish(decision.message, ruled);
    else if (decision.do === 'send') await sendToChild(decision, world, ledger);
    else if (decision.do === 'rest') {
      await desk.flush();
      await approvals.flush();
      await ledger.sync();
      await tidyCalls(world, ledger);
      if (woken) return beat(ruled);
    }
    if (!ledger.session.run) leavePlace();
    return decision;
  }

  /** A run that would never go on comes to rest, and the log says so. While it waits for children, they are looked at now and then. */
  function unstalled(decision: Decision, ruled: Rules): Decision {
    const { session } = ledger;
    if (goesRound(decision)) return notAgain(decision, ruled);
    // A child session waits for settings without a word; whoever reads them wakes it.
    if (decision.do !== 'rest' || !session.run || ruled.settingsFault !== null) return decision;
    if (!isStalled(session, decision)) {
      later(CHILDREN_MS);
      return decision;
    }
    world.log('error', `the run of ${session.run.message} waits for nothing, at event ${session.seq}: it is ended`);
    return { do: 'record', events: stalledRest(session, ruled) };
  }

  /** What was decided again and again is not recorded once more: its run ends, or the session fails where none is on. */
  function notAgain(decision: Decision, ruled: Rules): Decision {
    const { session } = ledger;
    const types = decision.do === 'record' ? decision.events.map(({ type }) => type).join(', ') : decision.do;
    const what = `the same is decided again and again at event ${session.seq}: ${types}`;
    if (!session.run) throw new Error(what);
    world.log('error', `${what}: the run of ${session.run.message} is ended`);
    return { do: 'record', events: stalledRest(session, ruled) };
  }

  /** Where the time has come that a rest waits for, what was to happen then happens; a message that is not due yet is no matter of now. */
  function timely(decision: Decision): Decision {
    if (decision.do === 'send') {
      const wait = pauses.left(decision.notBefore);
      if (wait > 0) later(wait);
      return wait > 0 ? { do: 'rest' } : decision;
    }
    if (decision.do !== 'rest' || !decision.due) return decision;
    const wait = deadlines.left(decision.due.at);
    if (wait <= 0) return { do: 'record', events: decision.due.events };
    // A timer of many days is none: it is set anew.
    later(Math.min(wait, LONGEST_PAUSE_MS), ledger.session.run === null);
    return decision;
  }

  /** What was saved until now belongs to this run, and what is wrong with it into its reply. */
  async function changedByHand(): Promise<boolean> {
    const before = ledger.session.seq;
    await desk.read({ final: true });
    return ledger.session.seq !== before;
  }

  async function look({ senders: named, settingsFault }: Rules): Promise<void> {
    woken = false;
    const senders = settingsFault === null ? named : 'unknown';
    // What is not taken in now stays in the inbox; the daemon wakes every such session when there is room again.
    const { pending, more, ...admitted } =
      world.room() === 'plenty' ? await admit(store, ledger, { held, senders }) : { ...NOTHING_TAKEN, held };
    held = admitted.held;
    await hearChildren(world, ledger);
    await approvals.read();
    const { settling } = await desk.read();
    caughtUp ||= !more;
    if (more) woken = true;
    else if (pending || settling) later(PENDING_MS);
  }

  /** The model or a tool: with a place among the runs, under a signal, and with an ear for what is dropped meanwhile. */
  async function performed(decision: Decision & { do: 'think' | 'act' }, ruled: Rules): Promise<boolean> {
    const wait = world.room() === 'none' ? ROOM_MS : pauses.left(decision.do === 'think' ? decision.notBefore : null);
    if (wait > 0) {
      await exclusively(() => desk.flush());
      later(wait);
      return false;
    }
    const control = new AbortController();
    inFlight = control;
    try {
      if (abortsNow(ledger.session)) return true;
      const since = entryOf(ledger.session.messages, ledger.session.run?.message ?? '')?.at ?? ledger.session.at;
      queueing = true;
      place ??= await world.slots.take(Date.parse(since), control.signal);
      queueing = false;
      desk.touch();
      // What is on record as begun is judged anew: the rules may have changed since.
      const stops = decision.do === 'act' ? await gate(decision.call, world, ledger, ruled, control.signal) : [];
      if (decision.do === 'act' && decision.call.state === 'asked') {
        const { key, name, args } = decision.call;
        if (stops.length > 0) {
          await exclusively(() => ledger.record(stops));
          return true;
        }
        await exclusively(() =>
          ledger.record([{ type: 'tool.started', call: key, name, args, replay: world.tools.replay(name) }]),
        );
      }
      const events =
        decision.do === 'think'
          ? await think(decision, world, ledger, ruled, control.signal)
          : await act(decision, world, ledger, control.signal, stops.length === 0);
      await ended(stopping && events.length === 0 ? cutShort(ledger.session, why) : events);
    } catch (error) {
      if (!control.signal.aborted || broken) throw error;
    } finally {
      inFlight = null;
      queueing = false;
      woken = true;
    }
    return true;
  }

  /** Puts the end of a call on record. Where there is no room even for that, it waits: the call cannot be made again. */
  async function ended(events: EventBody[]): Promise<void> {
    for (;;) {
      try {
        await exclusively(() => ledger.record(events));
        return;
      } catch (error) {
        if (!isFull(error) || stopping) throw error;
        troubled(error);
        await new Promise<void>((done) => clock.after(ROOM_MS, done));
      }
    }
  }

  /** While a call is in flight: take what came in, answer what can be answered, and end the call if a person says so. */
  async function glance(): Promise<void> {
    glancing = false;
    try {
      await hearMeanwhile();
    } finally {
      // A stop that came in is heard whatever else cannot be read.
      if (abortsNow(ledger.session)) inFlight?.abort(new Error('stopped by a person'));
    }
  }

  async function hearMeanwhile(): Promise<void> {
    const ruled = withJobs(await rules());
    if (woken) await look(ruled);
    const next = () => ledger.step('deciding', () => decideMeanwhile(ledger.session, ruled));
    for (let decision = next(); decision; decision = next()) {
      if (decision.do === 'record') await ledger.record(decision.events);
      else if (decision.do === 'publish') await publish(decision.message, ruled);
    }
    await ledger.sync();
    heardAgain();
  }

  async function publish(message: string, ruled: Rules): Promise<void> {
    const reply = own(ledger.session.unpublished, message);
    if (!reply) return;
    if (!careful) await desk.flush();
    await approvals.flush();
    await ledger.sync();
    await store.outbox.publish(reply.id, replyText(reply));
    const { [message]: _, ...unpublished } = ledger.session.unpublished;
    const next = decide({ ...ledger.session, unpublished }, ruled);
    // What is due later must be known after a restart.
    const idle = next.do === 'rest' && next.due === undefined && !waitsForSettings(ledger.session);
    await ledger.record([{ type: 'reply.published', message, idle }]);
  }

  /** A snapshot is taken where `plan.json` is up to date, so that a save that began from it finds its version. */
  async function keep(): Promise<void> {
    await desk.flush();
    await ledger
      .keep()
      .catch((error) =>
        world.log('warn', `no snapshot; the record is read further back next time: ${errorText(error)}`),
      );
  }

  async function end(): Promise<void> {
    while (loop.running !== null) await loop.running;
    if (!broken) await exclusively(() => desk.flush()).catch(fault);
    if (!broken) await exclusively(() => leave(ledger)).catch(fault);
    await ledger.sync().catch(onFault);
    if (!broken && ledger.unkept !== 'nothing') await ledger.keep().catch(() => undefined);
    await store.close();
  }

  const begun = openIn(ledger.session).length > 0;
  await recover(ledger, last);
  if (begun && !careful) await desk.read();
  stuck = !ledger.session.setbacks.gotOn;
  await tidyCalls(world, ledger);
  return {
    wake,
    begun,
    get idle() {
      return loop.running === null && !woken && (alarm?.patient ?? true) && ledger.session.run === null;
    },
    get due() {
      return alarm?.patient ? Math.max(0, alarm.at - clock.elapsed()) : null;
    },
    async stop(graceMs, reason = STOPPED) {
      stopping = true;
      why = reason;
      alarm?.off();
      if (queueing) inFlight?.abort(new Error(why));
      const cancel = clock.after(graceMs, () => inFlight?.abort(new Error(why)));
      ending ??= end();
      await ending.finally(cancel);
    },
  };
}

/** Rules with the window of the model, where its endpoint has told it and no person has. */
function learned(rules: Rules, model: Model, { run }: Session): Rules {
  const window = rules.windowIsSet ? undefined : model.window?.(run?.model);
  return window === undefined ? rules : { ...rules, contextWindow: window };
}

/** Something is set aside here, or its reply is still to be told. */
function isSettingAside(session: Session, rules: Rules): boolean {
  const { run, rest, unpublished } = session;
  if (parking(session, rules).length > 0 || Object.keys(unpublished).length > 0) return true;
  return run === null && rest?.reason === 'crashes' && entryOf(session.messages, rest.message)?.replied === false;
}

const rests = (decision: Decision): boolean =>
  decision.do === 'record' && decision.events.some((event) => event.type === 'run.rested');

/** A call that was cut short by the end of the daemon, or of the session's folder. */
function cutShort(session: Session, why: string): EventBody[] {
  return interruptions(session, why).filter(
    (event) => event.type === 'tool.interrupted' && event.outcome === 'unknown',
  );
}

/**
 * What the last daemon left open is put on record; the beat then goes on from there like from anywhere else. Durable before
 * anything is tried again: a thing that brings the daemon down is counted before it can do so once more.
 */
async function recover(ledger: Ledger, last: Fault | undefined): Promise<void> {
  const { session } = ledger;
  const open = openIn(session);
  if (open.length === 0) return;
  const how = session.stopped > 0 && session.stopped === session.seq ? ({ after: 'stop' } as const) : last;
  await ledger.record([{ type: 'recovery.started', open, ...(how ?? { after: 'crash' as const }) }]);
  await ledger.sync();
}

/** A daemon that ends in order says so where it leaves something open: the next one must not take it for a crash. */
async function leave(ledger: Ledger): Promise<void> {
  const open = openIn(ledger.session);
  if (open.length > 0) await ledger.record([{ type: 'daemon.stopped', open }]);
}

/** What is under way, in words. */
function openIn({ run, turn, queue, unpublished, question }: Session): string[] {
  const next = run ? undefined : queue[0];
  return [
    ...(run ? [`the run of ${run.message}`] : []),
    ...(turn?.calls
      .filter((call) => call.state === 'started' && call.key !== question?.call)
      .map((call) => `the call ${call.key} (${call.name})`) ?? []),
    ...(next === undefined ? [] : [`the message ${next}`]),
    ...Object.keys(unpublished).map((id) => `the reply to ${id}`),
  ];
}
