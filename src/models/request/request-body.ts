import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import { type SchemaStyle, writtenTools } from './offered-tools.ts';

export type RequestParts = {
  model: string;
  /** The messages, each as the bytes of its JSON. */
  wire: readonly Buffer[];
  tools: readonly ToolSpec[];
  schemas: SchemaStyle;
  /** The keys of the body beside these. */
  options: Readonly<Record<string, unknown>>;
};

/**
 * The body that the client's `chat.completions.create` would send, assembled from cached bytes of earlier requests,
 * since a conversation only grows at its end. Serialising everything again took a sixth of an iteration's processor
 * time at 50 messages.
 */
export function buildRequestBody({ model, wire, tools, schemas, options }: RequestParts): Buffer {
  const written = writtenTools(tools, schemas);
  return Buffer.concat([
    Buffer.from(`{"model":${JSON.stringify(model)},"messages":[`),
    ...joinWithCommas(wire),
    Buffer.from(']'),
    ...(written.length > 0 ? [Buffer.from(',"tools":['), ...joinWithCommas(written), Buffer.from(']')] : []),
    ...Object.entries(options).map(([key, value]) => Buffer.from(`,${JSON.stringify(key)}:${JSON.stringify(value)}`)),
    Buffer.from('}'),
  ]);
}

const COMMA = Buffer.from(',');

function joinWithCommas(parts: readonly Buffer[]): Buffer[] {
  const list: Buffer[] = [];
  for (const part of parts) list.push(part, COMMA);
  return list.slice(0, -1);
}

/**
 * The options of a request: those of agentd, with the person's `model.body` over them. Null removes a key.
 */
export function requestOptions(usage: boolean, body: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const all = { stream: true, ...(usage && { stream_options: { include_usage: true } }), ...body };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}
