import type { ScheduleSummary } from '../../../client/actions/schedules.ts';
import type { SettingsReport } from '../../../client/actions/settings-edit.ts';
import type { BudgetReport, UsageTotal } from '../../../client/inspect/budget-report.ts';
import type { UsageReport } from '../../../client/inspect/usage.ts';
import type { Occurrence } from '../../../protocol/schedules/schedule.ts';
import { hrefOf } from '../data/overview.ts';
import { openSession, useJson } from '../data/session.ts';
import { Facts, Loading, Notice, PageHeader, Table, Unfold } from '../parts/controls.tsx';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { formatCost, formatNumber, formatTime, formatTokens, words } from '../text/wording.ts';

/** The usage of model calls, and the settings in force with the file of each. */
export function DetailsView({ session }: { session?: string }) {
  return (
    <section class="view" aria-label={words.value.keys.details} {...FOCUSABLE}>
      <UsageTables session={session} />
      <SettingsTable session={session} />
    </section>
  );
}

/** Usage and settings of the workspace, as a separate page. */
export function DetailsPage() {
  const { keys } = words.value;
  return (
    <main class="session" aria-label={keys.details}>
      <PageHeader title={keys.details} />
      <BudgetsTable />
      <DetailsView />
      <SchedulesTable />
    </main>
  );
}

const ofSession = (session: string | undefined): string =>
  session === undefined ? '' : `?session=${encodeURIComponent(session)}`;

function UsageTables({ session }: { session: string | undefined }) {
  const { usage, noCalls, usageColumns, periods, notCounted, removedEvents } = words.value;
  const path = `/api/usage${ofSession(session)}`;
  const { run, run_end: runEnd } = openSession.value?.view ?? {};
  const spent = (run?.spent ?? runEnd?.spent)?.tokens;
  const { value, problem } = useJson<UsageReport>(path, spent);
  const called = value?.sessions.filter(({ calls }) => calls > 0).sort((a, b) => b.tokens - a.tokens) ?? [];
  return (
    <>
      <h2>{usage}</h2>
      {problem !== undefined && <Notice isProblem>{problem}</Notice>}
      {!value && problem === undefined && <Loading />}
      {value?.total.calls === 0 && <p class="quiet">{noCalls}</p>}
      {value && value.total.calls > 0 && (
        <>
          <Facts
            facts={[
              [usageColumns.calls, formatNumber(value.total.calls)],
              [usageColumns.tokens, formatTokens(value.total)],
              [usageColumns.cost, costText(value.total)],
            ]}
          />
          <UsageTable head={periods.day} rows={value.days.map((one) => ({ ...one, name: one.day })).reverse()} />
          {(session === undefined || called.length > 1) && (
            <UsageTable
              head={periods.session}
              rows={called.map((one) => ({ ...one, name: one.session, href: hrefOf(one.session) }))}
            />
          )}
        </>
      )}
      {value?.sessions.map(({ session: name, problem: why, removed_events: count }) => (
        <>
          {why !== null && <Notice isProblem>{notCounted(name, why)}</Notice>}
          {count > 0 && <p class="quiet">{notCounted(name, removedEvents(count))}</p>}
        </>
      ))}
    </>
  );
}

function UsageTable({
  head,
  rows,
}: {
  head: string;
  rows: ReadonlyArray<UsageTotal & { name: string; href?: string }>;
}) {
  return (
    <Table
      head={[head, ...Object.values(words.value.usageColumns)]}
      numbersFrom={1}
      rows={rows.map(({ name, href, ...sums }) => ({
        key: name,
        cells: [href === undefined ? name : <a href={href}>{name}</a>, sums.calls, formatTokens(sums), costText(sums)],
      }))}
    />
  );
}

function costText({ calls, cost, unpriced }: UsageTotal): string {
  const { unknownCost, unpriced: more } = words.value;
  if (unpriced === calls) return unknownCost;
  return unpriced === 0 ? formatCost(cost) : `${formatCost(cost)} ${more(unpriced)}`;
}

/** What is spent of each budget. Who may not see them is shown nothing. */
function BudgetsTable() {
  const { budgets: title, budgetColumns } = words.value;
  const { value } = useJson<BudgetReport['budgets']>('/api/budgets');
  if (value === undefined || value.length === 0) return null;
  return (
    <section class="view" aria-label={title} {...FOCUSABLE}>
      <h2>{title}</h2>
      <Table
        head={Object.values(budgetColumns)}
        numbersFrom={1}
        rows={value.map(({ setting, of, kind, spent, limit, until }) => ({
          key: `${setting} ${of}`,
          cells: [
            <>
              <code>{setting}</code> {of}
              <progress max={limit} value={spent} aria-label={setting} />
            </>,
            kind === 'cost' ? formatCost(spent) : formatNumber(Math.round(spent)),
            kind === 'cost' ? formatCost(limit) : formatNumber(limit),
            formatTime(until),
          ],
        }))}
      />
    </section>
  );
}

/** Each schedule: when it is due next, and what became of its last times. */
function SchedulesTable() {
  const { schedules: title, scheduleColumns, scheduleStates, notDue } = words.value;
  const { value, problem } = useJson<ScheduleSummary[]>('/api/schedules');
  if (problem === undefined && (value === undefined || value.length === 0)) return null;
  return (
    <section class="view" aria-label={title} {...FOCUSABLE}>
      <h2>{title}</h2>
      {problem !== undefined && <Notice isProblem>{problem}</Notice>}
      {value?.flatMap(({ name, fault }) =>
        fault === null
          ? []
          : [
              <Notice isProblem key={name}>
                {fault}
              </Notice>,
            ],
      )}
      {value && (
        <Table
          head={Object.values(scheduleColumns)}
          rows={value.flatMap(({ name, schedule, next, last }) =>
            schedule === null
              ? []
              : [
                  {
                    key: name,
                    cells: [
                      name,
                      next === null ? notDue : formatTime(next),
                      <code>{schedule.cron ?? schedule.every ?? schedule.heartbeat ?? schedule.at}</code>,
                      <a href={hrefOf(schedule.session)}>{schedule.session}</a>,
                      last && (
                        <Unfold summary={`${formatTime(last.due)} ${scheduleStates[last.state]}`}>
                          {() => <ScheduleHistory name={name} />}
                        </Unfold>
                      ),
                    ],
                  },
                ],
          )}
        />
      )}
    </section>
  );
}

function ScheduleHistory({ name }: { name: string }) {
  const { scheduleStates } = words.value;
  const { value, problem } = useJson<Occurrence[]>(`/api/schedules/${encodeURIComponent(name)}/history`);
  return (
    <ul>
      {problem !== undefined && <li>{problem}</li>}
      {value?.map(({ due, state, outcome, why }) => (
        <li key={due}>
          {[formatTime(due), scheduleStates[state], outcome, why].filter((part) => part !== undefined).join(' · ')}
        </li>
      ))}
    </ul>
  );
}

function SettingsTable({ session }: { session: string | undefined }) {
  const { settings: title, defaults } = words.value;
  const path = `/api/settings${ofSession(session)}`;
  const { value, problem } = useJson<SettingsReport>(path);
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
      {set.length > 0 && <SettingRows rows={set} />}
      {others.length > 0 && <Unfold summary={defaults(others.length)}>{() => <SettingRows rows={others} />}</Unfold>}
    </>
  );
}

function SettingRows({ rows }: { rows: SettingsReport['settings'] }) {
  return (
    <Table
      head={Object.values(words.value.settingColumns)}
      rows={rows.map(({ name, value, from }) => ({
        key: name,
        cells: [<code>{name}</code>, <code>{typeof value === 'string' ? value : JSON.stringify(value)}</code>, from],
      }))}
    />
  );
}
