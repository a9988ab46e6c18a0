import type { ImageFile } from '../../protocol/session/message.ts';
import { EndpointRefusal } from '../answer/endpoint-errors.ts';

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
