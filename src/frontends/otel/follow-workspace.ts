import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorText, UserError } from '../../base/user-error.ts';
import type { Client } from '../../client/index.ts';
import { type Metric, readMetrics } from '../../client/inspect/workspace-metrics.ts';
import { type FolderTail, openTailIn } from '../../client/sessions/follow-log.ts';
import { openEventSpans, type SpanRecord } from './event-spans.ts';
import { addDuration, type Durations, type OtlpSender, TryLater } from './otlp-sender.ts';

export type FollowSettings = {
  sender: OtlpSender;
  /** Only what ended after this time is sent, in ms since 1970; by default what is not sent yet, else from now on. */
  since: number | undefined;
  /** What was said is sent, too. */
  content: boolean;
  /** Sends what there is and ends. */
  once: boolean;
  signal: AbortSignal;
  complain: (text: string) => void;
};

const POLL_MS = 2000;
const METRICS_EVERY_MS = 60_000;
/** Most spans in a request; while more wait, nothing is read. */
const BATCH = 500;

/**
 * Follows the event logs of a workspace and sends what happens until `signal` is aborted. While the collector is away,
 * the logs wait and nothing is lost. Throws UserError where it refuses what is sent.
 */
export async function followWorkspace(client: Client, settings: FollowSettings): Promise<void> {
  const { sender, content, once, signal, complain } = settings;
  const mark = join(client.paths.own, 'otel.json');
  const since = settings.since ?? readMark(mark) ?? Date.now();
  const sessions = new Map<string, Followed>();
  const queue: SpanRecord[] = [];
  const numbers = openNumbers();
  let said = '';

  async function sendSpans(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH);
      await sender.sendSpans(batch);
      queue.splice(0, batch.length);
      for (const span of batch) numbers.count(span);
    }
  }

  async function sendNew(): Promise<void> {
    const [now, before] = [Date.now(), numbers.spans()];
    await sendSpans();
    const names = client.sessions();
    for (const name of sessions.keys()) if (!names.includes(name)) sessions.delete(name);
    for (const name of names) {
      const one = sessions.get(name) ?? followed(client.folder(name), name, content);
      // What is in a log that has not changed since was sent before.
      if (!sessions.has(name) && one.tail.changedAt() <= since) continue;
      sessions.set(name, one);
      await readSpans(one, (span) => span.end > since && queue.push(span)).catch((error: unknown) => {
        if (!one.isBroken) complain(`${name} is left out: ${errorText(error)}`);
        one.isBroken = true;
      });
      if (queue.length >= BATCH) await sendSpans();
    }
    await sendSpans();
    if (numbers.spans() > before) writeMark(mark, now);
  }

  for (let metricsAt = 0; ; ) {
    const now = Date.now();
    try {
      await sendNew();
      if (once || now - metricsAt >= METRICS_EVERY_MS) {
        await sender.sendMetrics([...(await readMetrics(client)), numbers.runs()], numbers.durations, now);
        metricsAt = now;
      }
      if (said !== '') complain('The collector takes data again.');
      said = '';
    } catch (error) {
      if (!(error instanceof TryLater)) throw error;
      if (once) throw new UserError(`${error.message}. Nothing is lost: run this again.`);
      if (error.message !== said) complain(`${error.message}. It is tried again; the logs wait.`);
      said = error.message;
    }
    if (once || signal.aborted) return;
    await sleep(POLL_MS, undefined, { signal }).catch(() => {});
  }
}

/** A session whose log is followed. */
type Followed = { tail: FolderTail; spans: ReturnType<typeof openEventSpans>; isBroken: boolean; restart(): Followed };

function followed(folder: string, name: string, content: boolean): Followed {
  const restart = () => followed(folder, name, content);
  return { tail: openTailIn(folder), spans: openEventSpans(name, content), isBroken: false, restart };
}

async function readSpans(one: Followed, found: (span: SpanRecord) => void): Promise<void> {
  for await (const { event, supersedes } of one.tail.readNew()) {
    if (supersedes) {
      // What was read of a daemon that had lost the workspace is void: what was open before that is open again.
      const again = one.restart();
      for await (const line of again.tail.readNew()) {
        if (line.event.seq >= event.seq) break;
        again.spans.take(line.event);
      }
      one.spans = again.spans;
    }
    for (const span of one.spans.take(event)) found(span);
  }
}

/** What the spans that were sent add up to, since the start of this process. */
function openNumbers() {
  const runs = new Map<string, number>();
  const durations = (name: string, help: string): Durations => ({ name, help, unit: 's', rows: new Map() });
  const chat = durations('gen_ai.client.operation.duration', 'How long model calls took.');
  const tool = durations('gen_ai.execute_tool.duration', 'How long tool calls took.');
  let spans = 0;
  return {
    durations: [chat, tool],
    spans: () => spans,
    count({ attributes, start, end }: SpanRecord): void {
      spans++;
      const kept = Object.entries(attributes).flatMap(([key, value]) =>
        LABELS.includes(key) && typeof value === 'string' ? [[key, value] as const] : [],
      );
      const operation = attributes['gen_ai.operation.name'];
      const of = operation === 'chat' ? chat : operation === 'execute_tool' ? tool : undefined;
      if (of) addDuration(of, Object.fromEntries(kept), (end - start) / 1000);
      const status = attributes['agentd.run.status'];
      if (typeof status === 'string') runs.set(status, (runs.get(status) ?? 0) + 1);
    },
    runs: (): Metric => ({
      ...{ name: 'agentd_runs_total', help: 'Runs by how they came to rest.', type: 'counter' },
      values: [...runs].map(([end, value]) => ({ labels: { end }, value })),
    }),
  };
}

/** Attributes with few values. */
const LABELS = [
  'gen_ai.operation.name',
  'gen_ai.provider.name',
  'gen_ai.request.model',
  'gen_ai.tool.name',
  'error.type',
];

/** Up to when everything was sent. */
function readMark(path: string): number | undefined {
  try {
    const value: unknown = JSON.parse(fs.readFileSync(path, 'utf8'));
    const at =
      typeof value === 'object' && value !== null && 'sent_to' in value ? Date.parse(String(value.sent_to)) : NaN;
    return Number.isNaN(at) ? undefined : at;
  } catch {
    return undefined;
  }
}

/** Where that fails, spans may be sent twice, with the same ids. */
function writeMark(path: string, at: number): void {
  try {
    fs.writeFileSync(`${path}.new`, `${JSON.stringify({ sent_to: new Date(at).toISOString() })}\n`, { mode: 0o600 });
    fs.renameSync(`${path}.new`, path);
  } catch {}
}
