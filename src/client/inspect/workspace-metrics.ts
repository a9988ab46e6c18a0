import { SESSION_STANDINGS } from '../../protocol/session/reply.ts';
import type { DaemonStatus } from '../../protocol/workspace/daemon-files.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { addSpent, listUsageDays, NOTHING_SPENT, readUsageDay } from '../../store/usage/usage-files.ts';
import type { WorkspaceOwner } from '../../store/workspace/owner-file.ts';
import type { SessionOverview } from './session-overview.ts';

/**
 * One measured quantity of a workspace, with a value for each set of labels. Names and units are those of Prometheus.
 * No label is the name of a session, of which there may be any number.
 */
export type Metric = {
  name: string;
  help: string;
  type: 'gauge' | 'counter';
  values: Array<{ labels: Record<string, string>; value: number }>;
};

/** What a client can do that is asked here. */
type Source = {
  paths: WorkspacePaths;
  list(): AsyncIterable<SessionOverview>;
  sessions(): string[];
  daemon(): WorkspaceOwner | undefined;
  status(): DaemonStatus | undefined;
};

/**
 * How the sessions are doing that `client` may see, what they cost, and what their daemon says of itself.
 * `workspace`: a client without restrictions.
 */
export async function readMetrics(client: Source, workspace: Source = client): Promise<Metric[]> {
  const standings = new Map<string, number>(SESSION_STANDINGS.map((one) => [one, 0]));
  const [waits, sum] = [new Map<string, number>(), { inbox: 0, unserved: 0 }];
  const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
  for await (const one of client.list()) {
    count(standings, one.standing);
    if (one.waits_for !== null) count(waits, one.waits_for);
    sum.inbox += one.inbox;
    if (one.unserved !== null || one.problem !== null) sum.unserved += 1;
  }
  return [
    gauge('agentd_sessions', 'Sessions by state.', byLabel('state', standings)),
    gauge('agentd_sessions_waiting', 'Sessions by what they wait for.', byLabel('for', waits)),
    gauge(
      'agentd_sessions_unserved',
      'Sessions whose messages are not taken, or whose log cannot be read.',
      sum.unserved,
    ),
    gauge('agentd_inbox_messages', 'Messages that have not been taken yet.', sum.inbox),
    ...daemonMetrics(workspace),
    ...spendingMetrics(workspace, client === workspace ? undefined : new Set(client.sessions())),
  ];
}

function daemonMetrics(client: Source): Metric[] {
  const owner = client.daemon();
  const status = owner && client.status();
  const up = gauge('agentd_up', 'Whether a daemon serves the workspace.', owner ? 1 : 0);
  if (!owner) return [up];
  const since = gauge(
    'agentd_start_time_seconds',
    'When the daemon started, as a Unix time.',
    Date.parse(owner.at) / 1000,
  );
  if (!status) return [up, since];
  const { disk, sessions, settings, watching } = status;
  const megabytes = 1024 * 1024;
  return [
    up,
    since,
    gauge('agentd_status_time_seconds', 'When the daemon last wrote its status.', Date.parse(status.at) / 1000),
    gauge('agentd_disk_free_bytes', 'Free space on the disk of the workspace.', disk.free_mb * megabytes),
    gauge('agentd_disk_required_bytes', 'Below this, no messages are accepted.', disk.min_free_mb * megabytes),
    gauge('agentd_sessions_open', 'Sessions in memory.', sessions.open),
    gauge('agentd_sessions_polled', 'Sessions whose folders are polled instead of watched.', watching.polled),
    gauge('agentd_settings_invalid', 'Whether the settings of the workspace are invalid.', settings.fault ? 1 : 0),
  ];
}

/** From `usage/`, so they begin again at 0 where its files are removed. */
function spendingMetrics({ paths }: Source, only: ReadonlySet<string> | undefined): Metric[] {
  const models = new Map<string, typeof NOTHING_SPENT>();
  for (const day of listUsageDays(paths.usage)) {
    const file = readUsageDay(paths.usage, day);
    if (file === undefined || file === 'damaged') continue;
    for (const one of file.entries)
      if (only?.has(one.session) !== false)
        models.set(one.model, addSpent(models.get(one.model) ?? NOTHING_SPENT, one));
  }
  const counter = (name: string, help: string, of: (spent: typeof NOTHING_SPENT) => number): Metric => ({
    ...{ name, help, type: 'counter' },
    values: [...models].map(([model, spent]) => ({ labels: { model }, value: of(spent) })),
  });
  return [
    counter('agentd_model_calls_total', 'Model calls.', ({ calls }) => calls),
    counter('agentd_model_tokens_total', 'Tokens of model calls, in and out.', ({ tokens }) => tokens),
    counter('agentd_model_cached_tokens_total', 'Those of them that the provider had cached.', ({ cached }) => cached),
    counter('agentd_model_cost_usd_total', 'Cost of model calls, as far as prices are known.', ({ cost }) => cost),
    counter('agentd_model_seconds_total', 'Time spent in model calls.', ({ ms }) => ms / 1000),
  ];
}

const gauge = (name: string, help: string, values: number | Metric['values']): Metric => ({
  ...{ name, help, type: 'gauge' },
  values: typeof values === 'number' ? [{ labels: {}, value: values }] : values,
});

const byLabel = (label: string, counts: ReadonlyMap<string, number>): Metric['values'] =>
  [...counts].map(([key, value]) => ({ labels: { [label]: key }, value }));

/** The media type of `formatMetrics`. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** As Prometheus reads it. */
export const formatMetrics = (metrics: readonly Metric[]): string =>
  metrics
    .filter(({ values }) => values.length > 0)
    .map(({ name, help, type, values }) => {
      const lines = values.map(({ labels, value }) => `${name}${formatLabels(labels)} ${value}`);
      return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n');
    })
    .join('');

function formatLabels(labels: Record<string, string>): string {
  const quoted = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  const all = Object.entries(labels).map(([name, value]) => `${name}="${quoted(value)}"`);
  return all.length === 0 ? '' : `{${all.join(',')}}`;
}
