import { ProtobufMetricsSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { errorText, InvalidArgument, UserError } from '../../base/user-error.ts';
import type { Metric } from '../../client/inspect/workspace-metrics.ts';
import { packageVersion } from '../command-line.ts';
import type { SpanRecord } from './event-spans.ts';

type Spans = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0];
type Metrics = Parameters<typeof ProtobufMetricsSerializer.serializeRequest>[0];
type MetricPoints = Metrics['scopeMetrics'][number]['metrics'][number];
type HrTime = Spans[number]['startTime'];

/** How long each of some calls took, in seconds. */
export type Durations = { name: string; help: string; unit: string; rows: Map<string, DurationRow> };
type DurationRow = { attributes: Record<string, string>; counts: number[]; sum: number };

/** The buckets that the GenAI conventions ask for. */
const BOUNDARIES = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

export function addDuration({ rows }: Durations, attributes: Record<string, string>, seconds: number): void {
  const key = JSON.stringify(attributes);
  const row = rows.get(key) ?? { attributes, counts: new Array<number>(BOUNDARIES.length + 1).fill(0), sum: 0 };
  const place = BOUNDARIES.findIndex((upTo) => seconds <= upTo);
  const bucket = place < 0 ? BOUNDARIES.length : place;
  row.counts[bucket] = (row.counts[bucket] ?? 0) + 1;
  row.sum += seconds;
  rows.set(key, row);
}

/** Sends to a collector. Both throw `TryLater` where the same may succeed later, and UserError where it will not. */
export type OtlpSender = {
  /** Where it sends to, for people. */
  to: string;
  sendSpans(spans: readonly SpanRecord[]): Promise<void>;
  sendMetrics(metrics: readonly Metric[], durations: readonly Durations[], now: number): Promise<void>;
};

export class TryLater extends Error {}

const TIMEOUT_MS = 10_000;

/** OTLP over HTTP as protobuf, set by the variables of OpenTelemetry; `endpoint` takes their place. */
export function openOtlpSender(endpoint: string | undefined, env: NodeJS.ProcessEnv, startedAt: number): OtlpSender {
  const base = (endpoint ?? (env['OTEL_EXPORTER_OTLP_ENDPOINT'] || 'http://localhost:4318')).replace(/\/+$/, '');
  const named = (signal: string) =>
    (endpoint === undefined && env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]) || undefined;
  const [traces, metrics] = [named('TRACES') ?? `${base}/v1/traces`, named('METRICS') ?? `${base}/v1/metrics`];
  for (const url of [traces, metrics])
    if (!/^https?:/i.test(url) || !URL.canParse(url))
      throw new InvalidArgument(`Expected the address of a collector, such as http://localhost:4318, got "${url}".`);
  const protocol = env['OTEL_EXPORTER_OTLP_PROTOCOL'] || 'http/protobuf';
  if (protocol !== 'http/protobuf')
    throw new InvalidArgument(`Only OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf is supported, not "${protocol}".`);
  const headers = readPairs(env['OTEL_EXPORTER_OTLP_HEADERS']);
  const resource = resourceOf(env);
  const scope = { name: 'agentd', version: packageVersion() };

  async function post(url: string, body: Uint8Array | undefined): Promise<void> {
    const response = await fetch(url, {
      ...{ method: 'POST', body: body ? Buffer.from(body) : null, signal: AbortSignal.timeout(TIMEOUT_MS) },
      headers: { ...headers, 'content-type': 'application/x-protobuf' },
    }).catch((error: unknown) => {
      const { cause } = error instanceof Error ? error : { cause: undefined };
      throw new TryLater(`${url} does not answer: ${errorText(cause ?? error)}`);
    });
    const text = (await response.text().catch(() => '')).slice(0, 300);
    if (response.ok) return;
    const words = `${url} answered ${response.status} ${response.statusText}: ${text}`.trim();
    if ([408, 429, 502, 503, 504].includes(response.status)) throw new TryLater(words);
    throw new UserError(words);
  }

  return {
    to: traces,
    sendSpans: (spans) =>
      post(traces, ProtobufTraceSerializer.serializeRequest(spans.map((span) => readableSpan(span, resource, scope)))),
    sendMetrics(list, durations, now) {
      const [startTime, endTime] = [toHrTime(startedAt), toHrTime(now)];
      const points = [
        ...list.filter(({ values }) => values.length > 0).map((metric) => pointsOf(metric, startTime, endTime)),
        ...durations.filter(({ rows }) => rows.size > 0).map((one) => histogramOf(one, startTime, endTime)),
      ];
      const request: Metrics = { resource, scopeMetrics: [{ scope, metrics: points }] };
      return post(metrics, ProtobufMetricsSerializer.serializeRequest(request));
    },
  };
}

type Resource = Spans[number]['resource'];

/** Who sends, as the variables of OpenTelemetry say. */
function resourceOf(env: NodeJS.ProcessEnv): Resource {
  const named = readPairs(env['OTEL_RESOURCE_ATTRIBUTES']);
  const attributes = {
    'service.name': env['OTEL_SERVICE_NAME'] || 'agentd',
    'service.version': packageVersion(),
    ...named,
    ...(env['OTEL_SERVICE_NAME'] && { 'service.name': env['OTEL_SERVICE_NAME'] }),
  };
  const resource: Resource = { attributes, merge: () => resource, getRawAttributes: () => Object.entries(attributes) };
  return resource;
}

/** `a=1,b=2`, each value encoded as in an address. */
function readPairs(text = ''): Record<string, string> {
  const pairs = text.split(',').flatMap((pair): Array<[string, string]> => {
    const [name = '', value] = pair.split(/=(.*)/s);
    if (name.trim() === '' || value === undefined) return [];
    try {
      return [[name.trim(), decodeURIComponent(value.trim())]];
    } catch {
      return [[name.trim(), value.trim()]];
    }
  });
  return Object.fromEntries(pairs);
}

const toHrTime = (ms: number): HrTime => [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)];

function readableSpan(span: SpanRecord, resource: Resource, instrumentationScope: { name: string }): Spans[number] {
  const { traceId, spanId, parentId, kind, name, start, end, attributes, error } = span;
  const context = (id: string) => ({ traceId, spanId: id, traceFlags: 1 });
  return {
    ...{ name, attributes, resource, instrumentationScope, ended: true, links: [], events: [] },
    kind: kind === 'client' ? 2 : 0,
    spanContext: () => context(spanId),
    ...(parentId !== undefined && { parentSpanContext: context(parentId) }),
    ...{ startTime: toHrTime(start), endTime: toHrTime(end), duration: toHrTime(end - start) },
    status: error === undefined ? { code: 0 } : { code: 2, message: error },
    ...{ droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0 },
  };
}

/** Sums since the start of whoever sends, as most collectors want them. */
const CUMULATIVE = 1;
const [HISTOGRAM, GAUGE, SUM] = [0, 2, 3] as const;

function pointsOf({ name, help, type, values }: Metric, startTime: HrTime, endTime: HrTime): MetricPoints {
  const common = {
    descriptor: { name, description: help, unit: '', valueType: 1 },
    aggregationTemporality: CUMULATIVE,
    dataPoints: values.map(({ labels, value }) => ({ startTime, endTime, attributes: labels, value })),
  };
  return type === 'gauge' ? { ...common, dataPointType: GAUGE } : { ...common, dataPointType: SUM, isMonotonic: true };
}

function histogramOf({ name, help, unit, rows }: Durations, startTime: HrTime, endTime: HrTime): MetricPoints {
  return {
    descriptor: { name, description: help, unit, valueType: 1 },
    aggregationTemporality: CUMULATIVE,
    dataPointType: HISTOGRAM,
    dataPoints: [...rows.values()].map(({ attributes, counts, sum }) => ({
      ...{ startTime, endTime, attributes },
      value: { buckets: { boundaries: BOUNDARIES, counts }, count: counts.reduce((all, one) => all + one, 0), sum },
    })),
  };
}
