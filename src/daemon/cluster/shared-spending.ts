import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ObjectContext } from '@restatedev/restate-sdk';
import { errorText } from '../../base/user-error.ts';
import type { CallSpent, SpendingRefusal } from '../../engine/ports/session-ports.ts';
import { ReserveRequest, SettleRequest, SpendingVerdict, UsageMonth } from '../../protocol/settings/budgets.ts';
import type { OpenCall, UsageFile } from '../../protocol/workspace/usage-file.ts';
import { budgetsOfCall } from '../../store/usage/budget-state.ts';
import {
  listUsageDays,
  localDay,
  readUsageDay,
  settleAbandoned,
  writeUsageDay,
} from '../../store/usage/usage-files.ts';
import { judgeCall, learnPrice, type SpendingBook, type SpendingOptions, settleCall } from '../host/spending.ts';

/** The engine's object that counts for all workers; it has one key. */
export const SPENDING_OBJECT = 'spending';
const KEY = 'workspace';
const RETRY_MS = 1000;
/** What calls without budgets cost is sent so often. */
const SEND_EVERY_MS = 2000;
/** A call that has been in flight for this long belongs to a worker that was lost. */
const ABANDONED_MS = 30 * 60 * 1000;

/** The book of a worker: all workers of a workspace ask the same object of the engine. */
export function openSharedBook(engine: URL, owner: string, options: SpendingOptions): SpendingBook {
  const { clock, log, budgets } = options;
  const unpriced = new Set<string>();
  const ended = new AbortController();
  let unsent: SettleRequest = [];
  let calls = 0;
  let isDown = false;

  /** Asks until the engine answers, each time under the same key, so that it counts once. */
  async function ask(handler: 'reserve' | 'settle', body: unknown, signal: AbortSignal): Promise<unknown> {
    const url = new URL(`/${SPENDING_OBJECT}/${KEY}/${handler}`, engine);
    const headers = { 'content-type': 'application/json', 'idempotency-key': randomUUID() };
    for (;;) {
      try {
        const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal });
        const text = await response.text();
        if (!response.ok) throw new Error(`status ${response.status}: ${text}`);
        isDown = false;
        return text === '' ? undefined : JSON.parse(text);
      } catch (error) {
        signal.throwIfAborted();
        if (!isDown) log('warn', `the engine does not count what model calls cost: ${errorText(error)}`);
        isDown = true;
        await sleep(RETRY_MS, undefined, { signal });
      }
    }
  }

  async function send(): Promise<void> {
    const batch = unsent;
    unsent = [];
    if (batch.length > 0) await ask('settle', batch, ended.signal).catch(() => unsent.unshift(...batch));
  }
  const timer = setInterval(() => void send(), SEND_EVERY_MS);
  timer.unref();

  const settle = (call: OpenCall, isReserved: boolean) => async (spent: CallSpent) => {
    learnPrice(unpriced, call.model, spent);
    unsent.push({ call, spent, isReserved });
    if (isReserved) void send();
  };

  return {
    async reserve({ source, own, tokens, cost }, signal) {
      const at = clock.now().toISOString();
      const call: OpenCall = { ...source, id: `${owner}-${calls++}`, tokens, cost, at };
      if (!own && !budgets()) return { settle: settle(call, false) };
      for (;;) {
        const isUnpriced = cost === null && unpriced.has(source.model);
        const verdict = SpendingVerdict.parse(await ask('reserve', { call, own, isUnpriced }, signal));
        if (verdict.is === 'refused') return verdict.refusal satisfies SpendingRefusal;
        if (verdict.is === 'room') return { settle: settle(call, true) };
        await sleep(RETRY_MS, undefined, { signal });
      }
    },
    async close() {
      clearInterval(timer);
      // Without the engine it is not counted.
      const limit = setTimeout(() => ended.abort(), RETRY_MS);
      await send();
      clearTimeout(limit);
    },
  };
}

/** The handlers of the object, whichever worker runs them. One runs at a time, and its state is the engine's. */
export function spendingHandlers(options: SpendingOptions) {
  const { budgets, log } = options;

  /** Changes the month in one step of the journal; `usage/` follows, and what cannot be written there is logged. */
  async function change<T>(ctx: ObjectContext, edit: (month: UsageMonth, now: Date) => [UsageMonth, T]): Promise<T> {
    const state = await ctx.get<unknown>('month');
    const { month, result } = await ctx.run('count', async () => {
      const now = options.clock.now();
      const before = monthAt(UsageMonth.safeParse(state).data, now, options);
      const [after, answer] = edit(before, now);
      const changed = after.days.filter((day) => !before.days.includes(day));
      for (const day of changed)
        await writeUsageDay(options.folder, day, false).catch((error) =>
          log('warn', `what model calls cost could not be written: ${errorText(error)}`),
        );
      return { month: after, result: answer };
    });
    ctx.set('month', month);
    return result;
  }

  return {
    reserve: (ctx: ObjectContext, request: unknown): Promise<SpendingVerdict> => {
      const { call, own, isUnpriced } = ReserveRequest.parse(request);
      return change<SpendingVerdict>(ctx, (month, now) => {
        const kept = settleLost(month, now);
        const states = budgetsOfCall(call, budgets(), own, kept.days, now);
        const verdict = judgeCall(states, call.model, isUnpriced);
        if (verdict.is !== 'room') return [kept, verdict];
        return [editDay(kept, call, (day) => ({ ...day, open: [...day.open, call] })), verdict];
      });
    },
    settle: (ctx: ObjectContext, request: unknown): Promise<null> =>
      change<null>(ctx, (month) => {
        const after = SettleRequest.parse(request).reduce(
          (all, { call, spent, isReserved }) =>
            editDay(all, call, (day) =>
              isReserved && !day.open.some(({ id }) => id === call.id) ? day : settleCall(day, call, spent),
            ),
          month,
        );
        return [after, null];
      }),
  };
}

/** The state for the month of `now`: the engine's, or, if that has none, what the files have. */
function monthAt(state: UsageMonth | undefined, now: Date, { folder }: SpendingOptions): UsageMonth {
  const month = localDay(now).slice(0, 7);
  if (state?.month === month) return state;
  const open = state?.days.filter((day) => day.open.length > 0) ?? [];
  const days = listUsageDays(folder, month).flatMap((day) => {
    const found = readUsageDay(folder, day);
    return found === undefined || found === 'damaged' ? [] : [state ? found : settleAbandoned(found)];
  });
  return { month, days: [...open, ...days] };
}

/** The month with a day changed: that on which the call began. */
function editDay(month: UsageMonth, { at }: OpenCall, edit: (day: UsageFile) => UsageFile): UsageMonth {
  const day = localDay(new Date(at));
  const place = month.days.findIndex((one) => one.day === day);
  const before: UsageFile = month.days[place] ?? { version: 1, day, entries: [], open: [] };
  const after = edit(before);
  return { ...month, days: place < 0 ? [...month.days, after] : month.days.with(place, after) };
}

/** Calls whose worker was lost count with the most they could cost. */
function settleLost(month: UsageMonth, now: Date): UsageMonth {
  const isLost = ({ at }: OpenCall) => now.getTime() - Date.parse(at) > ABANDONED_MS;
  const days = month.days.map((day) => {
    const lost = day.open.filter(isLost);
    if (lost.length === 0) return day;
    return { ...settleAbandoned({ ...day, open: lost }), open: day.open.filter((call) => !isLost(call)) };
  });
  return { ...month, days };
}
