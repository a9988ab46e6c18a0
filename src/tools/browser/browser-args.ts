import { z } from 'zod';
import { UserError } from '../../base/user-error.ts';
import type { BrowserConfig, NetworkSettings } from '../../protocol/settings/config.ts';
import { BROWSER_TOOL_NAME } from '../../protocol/workspace/handover.ts';
import { type CallEffects, optional } from '../common/define-tool.ts';
import { hostRule, normalizeAddress } from '../permissions/subject-forms.ts';

const url = z.string().min(1).max(8192).describe('navigate, download: an http or https URL.');
const ref = z
  .string()
  .regex(/^\[?e\d+\]?$/, 'expected a number from the page such as e12')
  .describe('The element: e12 for a line that begins with [e12].');
const text = z.string().max(100_000).describe('type: the new content of the field. wait: text that should appear.');
const submit = z.boolean().describe('type: press Enter afterwards.');
const key = z.string().min(1).max(50).describe('press: a key such as Enter, Escape, ArrowDown, Control+a.');
const values = z.array(z.string()).min(1).max(100).describe('select: labels or values of the options.');
const to = z.enum(['up', 'down', 'top', 'bottom']).describe('scroll: where to, without a ref; down if left out.');
const from = z.int().min(1).describe('snapshot: read on from this line of the page last shown.');
const seconds = z.number().positive().max(60).describe('wait: at most this long; 10 if left out.');
const whole = z.boolean().describe('screenshot: the whole page, not only what is in view.');
const number = z.int().min(1).describe('tab: which of the open tabs becomes the current one.');

/** The actions, each with its required and optional arguments. */
const ACTIONS = [
  z.strictObject({ action: z.literal('navigate'), url }),
  z.strictObject({ action: z.literal('snapshot'), from: from.optional() }),
  z.strictObject({ action: z.literal('click'), ref }),
  z.strictObject({ action: z.literal('type'), ref, text, submit: submit.optional() }),
  z.strictObject({ action: z.literal('press'), key, ref: ref.optional() }),
  z.strictObject({ action: z.literal('select'), ref, values }),
  z.strictObject({ action: z.literal('scroll'), to: to.optional(), ref: ref.optional() }),
  z.strictObject({ action: z.literal('wait'), text: text.optional(), seconds: seconds.optional() }),
  z.strictObject({ action: z.literal('back') }),
  z.strictObject({ action: z.literal('screenshot'), whole: whole.optional(), ref: ref.optional() }),
  z.strictObject({ action: z.literal('download'), url: url.optional(), ref: ref.optional() }),
  z.strictObject({ action: z.literal('tab'), number }),
  z.strictObject({ action: z.literal('close') }),
] as const;
const BrowserAction = z.discriminatedUnion('action', ACTIONS);
/** One browser action. */
export type BrowserAction = z.infer<typeof BrowserAction>;
export type BrowserActionOf<Action extends BrowserAction['action']> = Extract<BrowserAction, { action: Action }>;

/**
 * The arguments as models see them: one flat object, since some endpoints do not accept a union at the top level, and
 * some make the model fill in every key.
 */
const BrowserArgs = z.strictObject({
  action: z.enum([
    'navigate',
    'snapshot',
    'click',
    'type',
    'press',
    'select',
    'scroll',
    'wait',
    'back',
    'screenshot',
    'download',
    'tab',
    'close',
  ]),
  url: optional(url),
  ref: optional(ref),
  text: optional(text),
  submit: optional(submit),
  key: optional(key),
  values: optional(values),
  to: optional(to),
  from: optional(from),
  seconds: optional(seconds),
  whole: optional(whole),
  number: optional(number),
});
type BrowserArgs = z.output<typeof BrowserArgs>;

/** The model-facing description of `browser`. */
export const BROWSER_HEAD = {
  name: BROWSER_TOOL_NAME,
  description:
    'A real browser with its own cookies, for pages that web_fetch cannot read: made by scripts, forms, logins, clicks. ' +
    'Begin with `navigate`. Pages come as lines; [e12] before one is the number to `click`, `type`, `select` with. ' +
    'Cookie banners are dismissed by themselves. Files go to work/downloads/, pictures to work/screenshots/.',
  line: 'a real browser: pages made by scripts, forms, logins, screenshots',
  args: BrowserArgs,
  replay: 'never' as const,
  // Opening a URL may need approval. Actions on an approved page do not: people would stop reading the question if it
  // came with every click.
  touches: ({ url }: BrowserArgs): CallEffects => ({
    touches: ['network'],
    ...(url === undefined && { granted: ['network'] }),
  }),
  kind: 'address' as const,
  subject: (args: BrowserArgs) => (args.url === undefined ? JSON.stringify(args) : normalizeAddress(args.url)),
  always: ({ url }: BrowserArgs) => (url === undefined ? 'browser' : hostRule('browser', url)),
};

/** The requested action. Throws UserError if an action lacks an argument or got one it does not take. */
export function parseBrowserAction(args: BrowserArgs): BrowserAction {
  const given = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined));
  const read = BrowserAction.safeParse(given);
  const faults = read.success ? findMisfits(read.data) : read.error.issues.map(describeActionIssue);
  if (read.success && faults.length === 0) return read.data;
  const shape: z.ZodRawShape = ACTIONS.find((one) => one.shape.action.value === args.action)?.shape ?? {};
  const takes = Object.entries(shape).map(([name, value]) =>
    z.safeParse(value, undefined).success ? `${name}?` : name,
  );
  throw new UserError(`\`${args.action}\` cannot be done so: ${faults.join('; ')}. It takes: { ${takes.join(', ')} }.`);
}

function findMisfits(request: BrowserAction): string[] {
  if (request.action === 'download' && (request.url === undefined) === (request.ref === undefined)) {
    return ['it needs either `url` or `ref`'];
  }
  if (request.action === 'scroll' && request.to !== undefined && request.ref !== undefined) {
    return ['it goes either `to` somewhere or to the `ref`'];
  }
  return [];
}

function describeActionIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') {
    return `${issue.keys.map((one) => `\`${one}\``).join(' and ')} ${issue.keys.length === 1 ? 'means' : 'mean'} nothing to it`;
  }
  return `it needs \`${issue.path.join('.')}\``;
}

/** The current browser settings of a person. */
export type BrowserSettings = { network?: NetworkSettings | undefined; browser?: BrowserConfig | undefined };
