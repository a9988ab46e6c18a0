import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { EndpointRefusal } from '../answer/endpoint-errors.ts';
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

/** Which images are not sent to a model, and why. Learned from refusals. */
export type ImageSupport = {
  /** Why this image is named instead of sent; undefined if it is sent. */
  reasonHidden(model: string, image: ImageFile): string | undefined;
  /** Whether a refusal was about the images sent; if so they are hidden from now on. */
  learnFromRefusal(model: string, sent: readonly ImageFile[], error: unknown): boolean;
};

/** `images`: the person's setting; undefined: images are sent until a model refuses them. */
export function trackImageSupport(
  images: boolean | undefined,
  known: { isBlind(model: string): boolean; noteBlind(model: string): void },
): ImageSupport {
  const refused = new Set<string>();
  return {
    reasonHidden(model, { sha256 }) {
      if (images === false || (images === undefined && known.isBlind(model))) return 'this model sees no images';
      return refused.has(sha256) ? 'the endpoint refused it' : undefined;
    },
    learnFromRefusal(model, sent, error) {
      if (images === true || sent.length === 0 || !isAboutImages(error)) return false;
      if (isAboutOneImage(error)) for (const { sha256 } of sent) refused.add(sha256);
      else known.noteBlind(model);
      return true;
    },
  };
}

/** Statuses of endpoints that refuse a request with images. */
const IMAGE_REFUSAL_STATUSES: ReadonlySet<number | undefined> = new Set([400, 404, 415, 422]);
/** Text-only endpoints complain about the format: the content of a message is a list where they expect text. */
const ABOUT_IMAGES =
  /image|vision|multi-?modal|mmproj|content[ _-]?(?:type|part)|content\b.{0,40}\bstring|valid string|should be 'text'/i;
/** llama.cpp answers 500 (its issue 13566). */
const LLAMA_500 = /image input is not supported|mmproj/i;
/** The model has vision, but rejects this file. */
const ABOUT_ONE_IMAGE =
  /(?:invalid|corrupt|malformed|unsupported|broken|truncated)[ _](?:base64 )?image|image[ _](?:\w+ )?(?:is|was) (?:invalid|corrupt|too)|(?:process|decode|parse|load|identify|read) (?:the )?(?:input )?image|image_parse|image exceeds|invalid base64/i;

const NO_MATCH = /(?!)/;

function isAboutImages(error: unknown): boolean {
  if (!(error instanceof EndpointRefusal)) return false;
  const { meaning: status, words } = error;
  return (status === 500 ? LLAMA_500 : IMAGE_REFUSAL_STATUSES.has(status) ? ABOUT_IMAGES : NO_MATCH).test(words);
}

const isAboutOneImage = (error: unknown): boolean =>
  error instanceof EndpointRefusal && ABOUT_ONE_IMAGE.test(error.words);
