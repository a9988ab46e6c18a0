import { z } from 'zod';

/** The tool whose calls wait while a person uses the browser. */
export const BROWSER_TOOL_NAME = 'browser';

/** Event `browser.taken`. */
export const BrowserTaken = z.object({
  message: z.string(),
  from: z.string().optional().describe('Who uses it: the sender of the message.'),
});

/** Why a browser was given back without a person saying so. */
export const BrowserLost = z.enum(['nobody_there', 'browser_closed', 'no_socket', 'daemon_ended']);
export type BrowserLost = z.infer<typeof BrowserLost>;

/** Event `browser.returned`. */
export const BrowserReturned = z.object({
  by: z.enum(['person', 'daemon']),
  from: z.string().optional().describe('The sender of the message, if a message caused it.'),
  reason: z.enum(['given_back', ...BrowserLost.options]),
});

/** What the daemon knows about a session's browser; not part of the event log. */
export type BrowserState = {
  isOpen: boolean;
  /** Why the person who took it over no longer has it; null while they have. */
  lost: BrowserLost | null;
};
export const NO_BROWSER: BrowserState = { isOpen: false, lost: null };

/** A place in the picture, in its own pixels. */
const Place = z.number().min(0).max(10_000);
const at = { x: Place, y: Place };
const Button = z.enum(['left', 'middle', 'right']);
const Distance = z.number().min(-10_000).max(10_000);

/** What a person does in a browser, one JSON object to a line. */
export const BrowserInput = z.union([
  z.strictObject({ ack: z.literal(true).describe('A picture was shown; another one may be sent.') }),
  z.strictObject({ move: z.strictObject(at) }),
  z.strictObject({ down: z.strictObject({ ...at, button: Button, clicks: z.int().min(1).max(3) }) }),
  z.strictObject({ up: z.strictObject({ ...at, button: Button, clicks: z.int().min(1).max(3) }) }),
  z.strictObject({ wheel: z.strictObject({ ...at, dx: Distance, dy: Distance }) }),
  z.strictObject({ press: z.string().min(1).max(40).describe('A key, as "Enter", "a" or "Control+a".') }),
  z.strictObject({ type: z.string().min(1).max(4000).describe('Text, as it is typed.') }),
  z.strictObject({ go: z.enum(['back', 'reload']) }),
  z.strictObject({ tab: z.int().min(1).max(100).describe('The tab of this number becomes the current one.') }),
]);
export type BrowserInput = z.infer<typeof BrowserInput>;

/** What the daemon shows of it: a picture as JPEG in base64 with its size, or what page of which tab that is. */
export type BrowserOutput =
  | { picture: string; width: number; height: number }
  | { address: string; title: string; tab: number; tabs: number };
