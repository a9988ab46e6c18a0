import { requestJson } from '../data/api.ts';
import { hrefOf } from '../data/overview.ts';
import { openSession } from '../data/session.ts';
import { FOCUSABLE } from '../text/markdown.tsx';
import { formatCost, formatNumber, words } from '../text/wording.ts';
import { Notice, useAnswer } from './controls.tsx';

type UsageTotal = { calls: number; tokens: number; cost: number; unpriced: number };

/** What the page uses of `GET /api/usage`. */
type Usage = {
  sessions: ReadonlyArray<UsageTotal & { session: string; removed_events: number; problem: string | null }>;
  days: ReadonlyArray<UsageTotal & { day: string }>;
  total: UsageTotal;
};

/** What the page uses of `GET /api/settings`. */
type Settings = { settings: ReadonlyArray<{ name: string; value: unknown; from: string }>; faults: readonly string[] };

/** What the model calls came to, and the settings in force with the file of each. */
export function DetailsView({ session }: { session?: string }) {
  return (
    <section class="view" aria-label={words.value.keys.details} {...FOCUSABLE}>
      <UsageTables session={session} />
      <SettingsTable session={session} />
    </section>
  );
}

/** Those of the workspace, as a page of its own. */
export function DetailsPage() {
  const { back, keys } = words.value;
  return (
    <main class="session" aria-label={keys.details}>
      <header>
        <a class="back" href="#/">
          ‹ {back}
        </a>
        <h1>{keys.details}</h1>
      </header>
      <DetailsView />
    </main>
  );
}

const ofSession = (session: string | undefined): string =>
  session === undefined ? '' : `?session=${encodeURIComponent(session)}`;

function UsageTables({ session }: { session: string | undefined }) {
  const { usage, noCalls, modelCalls, tokenCount, cost, notCounted, removedEvents } = words.value;
  const path = `/api/usage${ofSession(session)}`;
  const spent = openSession.value?.view?.rest;
  const { value, problem } = useAnswer<Usage>((signal) => requestJson(path, { signal }), [path, spent?.spent.tokens]);
  const called = value?.sessions.filter(({ calls }) => calls > 0).sort((a, b) => b.tokens - a.tokens) ?? [];
  return (
    <>
      <h2>{usage}</h2>
      {problem !== undefined && <Notice isProblem>{problem}</Notice>}
      {value?.total.calls === 0 && <p class="quiet">{noCalls}</p>}
      {value && value.total.calls > 0 && (
        <>
          <dl class="tiles">
            {[
              [modelCalls, formatNumber(value.total.calls)],
              [tokenCount, formatNumber(value.total.tokens)],
              [cost, costText(value.total)],
            ].map(([name, text]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
          <UsageTable head={words.value.day} rows={value.days.map((one) => ({ ...one, name: one.day })).reverse()} />
          {(session === undefined || called.length > 1) && (
            <UsageTable
              head={words.value.session}
              rows={called.map((one) => ({ ...one, name: one.session, href: hrefOf(one.session) }))}
            />
          )}
        </>
      )}
      {value?.sessions.map(
        (one) => one.problem !== null && <Notice isProblem>{notCounted(one.session, one.problem)}</Notice>,
      )}
      {value?.sessions.map(
        ({ session: name, removed_events: count }) =>
          count > 0 && <p class="quiet">{notCounted(name, removedEvents(count))}</p>,
      )}
    </>
  );
}

type UsageRow = UsageTotal & { name: string; href?: string };

/** One row for each; the bar is its share of the most. */
function UsageTable({ head, rows }: { head: string; rows: readonly UsageRow[] }) {
  const { modelCalls, tokenCount, cost } = words.value;
  const most = Math.max(1, ...rows.map(({ tokens }) => tokens));
  return (
    <div class="wide">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">{head}</th>
            <th scope="col" class="number">
              {modelCalls}
            </th>
            <th scope="col" class="number">
              {tokenCount}
            </th>
            <th scope="col" class="number">
              {cost}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">
                {row.href === undefined ? row.name : <a href={row.href}>{row.name}</a>}
                <svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={(100 * row.tokens) / most} height="1" />
                </svg>
              </th>
              <td class="number">{row.calls}</td>
              <td class="number">{formatNumber(row.tokens)}</td>
              <td class="number">{costText(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function costText({ calls, cost, unpriced }: UsageTotal): string {
  const { unknownCost, unpriced: more } = words.value;
  if (unpriced === calls) return unknownCost;
  return unpriced === 0 ? formatCost(cost) : `${formatCost(cost)} ${more(unpriced)}`;
}

function SettingsTable({ session }: { session: string | undefined }) {
  const { settings: title, noSettings, defaults } = words.value;
  const path = `/api/settings${ofSession(session)}`;
  const { value, problem } = useAnswer<Settings>((signal) => requestJson(path, { signal }), [path]);
  const set = value?.settings.filter(({ from }) => from !== 'default') ?? [];
  const others = value?.settings.filter(({ from }) => from === 'default') ?? [];
  return (
    <>
      <h2>{title}</h2>
      {problem !== undefined && <Notice isProblem>{problem}</Notice>}
      {value?.faults.map((fault) => (
        <Notice isProblem key={fault}>
          {fault}
        </Notice>
      ))}
      {value && set.length === 0 && <p class="quiet">{noSettings}</p>}
      {set.length > 0 && <SettingRows rows={set} />}
      {others.length > 0 && (
        <details>
          <summary>{defaults(others.length)}</summary>
          <SettingRows rows={others} />
        </details>
      )}
    </>
  );
}

function SettingRows({ rows }: { rows: Settings['settings'] }) {
  const { setting, value: valueHead, from: fromHead } = words.value;
  return (
    <table class="list">
      <thead>
        <tr>
          <th scope="col">{setting}</th>
          <th scope="col">{valueHead}</th>
          <th scope="col">{fromHead}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, value, from }) => (
          <tr key={name}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td>
              <code>{typeof value === 'string' ? value : JSON.stringify(value)}</code>
            </td>
            <td class="quiet">{from}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
