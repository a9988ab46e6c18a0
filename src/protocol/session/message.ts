import { z } from 'zod';
import { IMAGE_TYPES } from '../../base/file-kind.ts';
import { Limits, LimitsInput, Mode } from '../settings/run-options.ts';
import { Role, SessionPattern } from '../workspace/daemon-files.ts';
import { PlanEdit } from './plan-edit.ts';

export const MessageOptions = z.strictObject({
  mode: Mode.optional().describe('The planning mode of the run this message starts.'),
  limits: Limits.optional().describe('Limits of the budget window this message starts.'),
  model: z.string().min(1).optional().describe('The model of the run this message starts.'),
  agent: z.string().min(1).optional().describe('The agent profile in the settings that does the work.'),
  folder: z
    .string()
    .regex(/^[^/\u0000.][^/\u0000]*$/, 'expected one plain name, without "/" and without a dot at its start')
    .optional()
    .describe('A folder under `work/` that the tools of this run see as their own.'),
  when: z
    .enum(['now', 'after', 'apart'])
    .optional()
    .describe(
      '"after": do not join an active run; wait for its end. "apart": the same, and the text is a task, whatever its words: it answers no question and resumes nothing.',
    ),
});
export type MessageOptions = z.infer<typeof MessageOptions>;

/**
 * What the sender of a file in the inbox may do, as the server says that took it in. Without it they are the owner,
 * since nobody else can write there; without one of its fields nothing is restricted by it.
 */
export const SenderRights = z.strictObject({
  role: Role.optional().describe('The role of the token it was sent with.'),
  sessions: z
    .array(z.array(SessionPattern).min(1))
    .optional()
    .describe('Lists of patterns such as those of a token: its sender may see sessions that match one of each list.'),
});
export type SenderRights = z.infer<typeof SenderRights>;

/** A schedule that was made of a message, and when it is due, as a clock in its time zone shows it. */
export const PlannedMessage = z.object({ schedule: z.string(), when: z.string() });
export type PlannedMessage = z.infer<typeof PlannedMessage>;

/** What a `.json` message file holds. Any other text file is `{ text: <its content> }`. */
export const MessageFile = z
  .strictObject({
    $schema: z.string().optional(),
    id: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe(
        'Chosen by the sender. The same id with the same content is the same message, however often it is dropped.',
      ),
    text: z.string().optional().describe('Text of the message.'),
    from: z.string().max(200).optional().describe('The sender; shown to the model and recorded in the event log.'),
    by: z.literal('agent').optional().describe('A model of another program wrote it, not a person.'),
    rights: SenderRights.optional().describe('What its sender may do; without it, everything.'),
    command: z
      .string()
      .min(1)
      .optional()
      .describe('A command without its slash, such as "continue"; `text` is its argument.'),
    attachments: z
      .array(z.string().regex(/^\.files\/[^/]+$/, 'expected ".files/<name>", a file put into inbox/.files/ first'))
      .optional()
      .describe('Files put into `inbox/.files/` first; they are moved to `work/uploads/`.'),
    options: MessageOptions.extend({
      limits: LimitsInput.optional().describe('Limits of the budget window this message starts.'),
    }).optional(),
    edit: PlanEdit.optional().describe('With the command "edit" alone: the plan as its author wants it.'),
  })
  .refine(
    (message) => (message.text ?? '').trim() !== '' || message.command !== undefined || message.attachments?.length,
    {
      message: 'expected "text", "command" or "attachments"; got none of them',
    },
  )
  .refine(
    ({ edit, command, text, attachments, options }) =>
      edit === undefined || (command === 'edit' && !(text ?? attachments ?? options)),
    { message: 'expected "edit" with the command "edit" and without "text", "attachments" and "options"' },
  );
export type MessageFile = z.infer<typeof MessageFile>;

/** Largest image a model is given, in bytes: the limit of the strictest large endpoint. */
export const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

/** An image as the log has it: its path and identity, never its pixels. */
export const ImageFile = z.object({
  path: z.string().describe('Under `work/`.'),
  type: z.enum(IMAGE_TYPES),
  bytes: z.int().min(1),
  sha256: z.string(),
});
export type ImageFile = z.infer<typeof ImageFile>;

/** A file that came with a message, as it was when the message was taken. */
export const Attachment = z.object({
  path: z.string().describe('Under `work/`.'),
  bytes: z.int().min(0),
  kind: z.string().describe('What it is, by its first bytes.'),
  image: ImageFile.pick({ type: true, sha256: true }).optional().describe('An image that a model can be given.'),
});
export type Attachment = z.infer<typeof Attachment>;

/** What `rejected/<name>.why.json` says of the file beside it. */
export const RejectionReason = z.object({ name: z.string(), why: z.string(), at: z.iso.datetime() });
export type RejectionReason = z.infer<typeof RejectionReason>;

/**
 * The result of a message that runs a template: the template as it was then, filled in, or why there is nothing to run.
 */
export const RenderedTemplate = z.union([
  z.object({
    name: z.string(),
    goal: z.string(),
    text: z.string().describe('Its steps and the text around them, filled in, as Markdown.'),
    mode: Mode.optional(),
    limits: Limits.optional(),
  }),
  z.object({ fault: z.string().describe('Why it cannot be run, as the reply says.') }),
]);
export type RenderedTemplate = z.infer<typeof RenderedTemplate>;
