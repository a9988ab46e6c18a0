import { errorText } from '../../base/user-error.ts';
import type {
  CallEstimate,
  CallSpent,
  Clock,
  Reservation,
  SessionPorts,
  SpendingRefusal,
} from '../../engine/ports/session-ports.ts';
import type { Budgets, PeriodBudgets } from '../../protocol/settings/budgets.ts';
import type { CallSource, OpenCall, UsageFile } from '../../protocol/workspace/usage-file.ts';
import { coalesceSyncs } from '../../store/fs/durable-write.ts';
import {
  type BudgetState,
  budgetsOfCall,
  formatBudget,
  judgeBudgets,
  WARN_SHARE,
} from '../../store/usage/budget-state.ts';
import {
  addToEntries,
  listUsageDays,
  localDay,
  readUsageDay,
  setAsideUsageDay,
  settleAbandoned,
  writeUsageDay,
} from '../../store/usage/usage-files.ts';

/** Whose call it is, and the budgets that its `session.json` has. */
export type SpendingCall = CallEstimate & { source: CallSource; own: PeriodBudgets | undefined };

/** What the model calls of a workspace cost, in `usage/`, and the budgets that hold them. */
export type SpendingBook = {
  /**
   * Reserves the most a call is expected to cost, durably if there are budgets. Waits while only calls in flight use a
   * budget up, and throws the signal's reason if aborted then. Resolves to a refusal if a budget is used up.
   */
  reserve(call: SpendingCall, signal: AbortSignal): Promise<Reservation | SpendingRefusal>;
  /** Writes what is not on disk yet. What cannot be written is logged: open calls are settled by the next daemon. */
  close(): Promise<void>;
};

export type SpendingOptions = {
  /** `usage/` of the workspace. */
  folder: string;
  budgets: () => Budgets | undefined;
  clock: Clock;
  log: SessionPorts['log'];
};

/** Opens the book of a workspace, for the daemon that owns it. Its files are read with the first call. */
export function openSpendingBook(options: SpendingOptions): SpendingBook {
  const { clock, log } = options;
  const days = openUsageDays(options);
  const queue = createTurns();
  const warnOnce = createWarning(log);
  /** Models whose last call had no known cost. */
  const unpriced = new Set<string>();
  let places = 0;
  const sayUnwritten = (error: unknown) =>
    log('warn', `what a model call cost could not be written: ${errorText(error)}`);

  async function settle(day: string, call: OpenCall, spent: CallSpent, isDurable: boolean): Promise<void> {
    learnPrice(unpriced, call.model, spent);
    days.change(day, (file) => settleCall(file, call, spent));
    // An answer is not lost for it: what is not written now is written with the next call.
    const written = (isDurable ? days.write : days.writeSoon)(day).catch(sayUnwritten);
    if (isDurable) await written;
    queue.next();
  }

  return {
    async reserve({ source, own, tokens, cost }, signal) {
      for (;;) {
        const now = clock.now();
        const states = budgetsOfCall(source, options.budgets(), own, days.month(now), now);
        warnOnce(states);
        const verdict = judgeCall(states, source.model, cost === null && unpriced.has(source.model));
        if (verdict.is === 'refused') return verdict.refusal;
        if (verdict.is === 'room') {
          const id = `${clock.elapsed()}-${places++}`;
          const call: OpenCall = { ...source, id, tokens, cost, at: now.toISOString() };
          const [day, isDurable] = [localDay(now), states.length > 0];
          days.change(day, (file) => ({ ...file, open: [...file.open, call] }));
          if (isDurable) await days.write(day);
          let isSettled = false;
          return {
            async settle(spent) {
              if (isSettled) return;
              isSettled = true;
              await settle(day, call, spent, isDurable);
            },
          };
        }
        await queue.wait(signal);
      }
    },
    close: () => days.saveAll().catch(sayUnwritten),
  };
}

/** Whether a call may start: `busy` until calls in flight have ended. `isUnpriced`: its model reports no cost. */
export function judgeCall(
  states: readonly BudgetState[],
  model: string,
  isUnpriced: boolean,
): { is: 'room' | 'busy' } | { is: 'refused'; refusal: SpendingRefusal } {
  const verdict = judgeBudgets(states);
  if (verdict.is === 'used up') return { is: 'refused', refusal: refusalOf(verdict.state) };
  const limited = isUnpriced && states.find(({ kind }) => kind === 'cost');
  if (limited) return { is: 'refused', refusal: unpricedRefusal(model, limited) };
  return { is: verdict.is };
}

/** The day once a call has ended, in flight or not: with what it cost, if it was made at all. */
export function settleCall(file: UsageFile, call: OpenCall, spent: CallSpent): UsageFile {
  const { model = call.model, tokens, estimated, cached = 0, cost, ms } = spent;
  const isCalled = tokens > 0 || cost === null || cost > 0;
  const known = { calls: 1, tokens, cached, cost: cost ?? 0, unpriced: cost === null ? 1 : 0, ms, unsettled: 0 };
  const sums = { ...known, ...(estimated && { estimated }) };
  return {
    ...file,
    open: file.open.filter(({ id }) => id !== call.id),
    entries: isCalled ? addToEntries(file.entries, { ...call, model }, sums) : file.entries,
  };
}

/** Keeps the set of the models whose last answer had no known cost. */
export function learnPrice(unpriced: Set<string>, asked: string, { model = asked, cost, isAnswered }: CallSpent): void {
  if (isAnswered && cost === null) unpriced.add(model);
  if (isAnswered && cost !== null) unpriced.delete(model);
}

function refusalOf(state: BudgetState): SpendingRefusal {
  return { until: state.until, why: `The budget ${formatBudget(state)} is used up.` };
}

/** Nobody could say when such a budget is used up, so it is an error of settings. */
function unpricedRefusal(model: string, { setting }: BudgetState): SpendingRefusal {
  return {
    until: null,
    why: `The cost of calls of the model ${model} is unknown: its endpoint does not report it. So ${setting} cannot be held. Set model.prices, or limit tokens in place of cost.`,
  };
}

/** Without budgets, nothing waits for the file, and each of its syncs slows down those of the event logs. */
const WRITE_EVERY_MS = 250;

/** The days of the current month, and those of calls that are still in flight. */
function openUsageDays({ folder, clock, log }: SpendingOptions) {
  const files = new Map<string, UsageFile>();
  const unwritten = new Set<string>();
  let loaded = '';

  function load(month: string): void {
    if (loaded === month) return;
    for (const day of listUsageDays(folder, month)) {
      if (files.has(day)) continue;
      const found = readUsageDay(folder, day);
      if (found === 'damaged')
        log(
          'warn',
          `what ${day} cost cannot be understood and does not count; it is kept as ${setAsideUsageDay(folder, day)}`,
        );
      else if (found) files.set(day, settleAbandoned(found));
    }
    loaded = month;
    for (const [day, { open }] of files)
      if (!day.startsWith(month) && open.length === 0 && !unwritten.has(day)) files.delete(day);
  }

  const of = (day: string): UsageFile => files.get(day) ?? { version: 1, day, entries: [], open: [] };
  const write = coalesceSyncs(async (day) => {
    const file = of(day);
    await writeUsageDay(folder, file, true);
    if (of(day) === file) unwritten.delete(day);
  });
  let isClosed = false;
  const writeSoon = coalesceSyncs(async (day) => {
    if (isClosed) return;
    await write(day);
    await new Promise<void>((over) => clock.after(WRITE_EVERY_MS, over));
  });
  return {
    month(now: Date): UsageFile[] {
      const month = localDay(now).slice(0, 7);
      load(month);
      return [...files.values()].filter(({ day }) => day.startsWith(month));
    },
    change(day: string, edit: (file: UsageFile) => UsageFile): void {
      files.set(day, edit(of(day)));
      unwritten.add(day);
    },
    /** Writes at once what has changed until now, durably; `writeSoon` within a moment. */
    ...{ write, writeSoon },
    /** The last: nothing is written afterwards. */
    async saveAll() {
      isClosed = true;
      for (const [day, { open, entries }] of files) if (open.length + entries.length > 0) await write(day);
    },
  };
}

/** Those who wait for a call to end, first come, first served. */
function createTurns(): { wait(signal: AbortSignal): Promise<void>; next(): void } {
  const waiting = new Set<() => void>();
  return {
    async wait(signal) {
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const done = () => {
          waiting.delete(done);
          signal.removeEventListener('abort', abort);
          resolve();
        };
        const abort = () => {
          waiting.delete(done);
          reject(signal.reason);
        };
        signal.addEventListener('abort', abort, { once: true });
        waiting.add(done);
      });
    },
    next() {
      for (const done of [...waiting]) done();
    },
  };
}

/** Logs a budget once per period when it is nearly used up. */
function createWarning(log: SessionPorts['log']): (states: readonly BudgetState[]) => void {
  const said = new Set<string>();
  return (states) => {
    for (const state of states) {
      const key = `${state.setting} ${state.of} ${state.until}`;
      if (state.spent < state.limit * WARN_SHARE || said.has(key)) continue;
      said.add(key);
      log('warn', `${formatBudget(state)} is spent until ${state.until}`);
    }
  };
}
