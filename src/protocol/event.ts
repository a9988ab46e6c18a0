import { z } from 'zod';
import { ApprovedBy } from './approval.ts';
import { Question } from './ask-call.ts';
import { Attached, ImageFile } from './images.ts';
import { Limits } from './limits.ts';
import { MessageOptions, Mode } from './message.ts';
import { CompletedBy, PlanSave, PlanStatus, Progress, Step, StepStatus } from './plan.ts';
import { Reply, Usage } from './reply.ts';

/** A dropped file as the file system knows it. One with another `ctime_ns` or name was touched or moved since. */
export const FileIdentity = z.object({
  ino: z.string(),
  mtime_ns: z.string(),
  sha256: z.string(),
  ctime_ns: z.string().optional().describe('Records of earlier versions have none.'),
  name: z.string().optional().describe('Its name in `inbox/`, where its reply has another.'),
});
export type FileIdentity = z.infer<typeof FileIdentity>;

/** A text in the record: inline, or the content hash of a file in `blobs/` where it is long. */
export const Recorded = z.union([
  z.object({ text: z.string() }),
  z.object({ blob: z.string(), head: z.string(), chars: z.int() }),
]);
export type Recorded = z.infer<typeof Recorded>;

export const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  args: z.string().describe('The arguments as the model wrote them: JSON, if it kept to the form.'),
});
export type ToolCall = z.infer<typeof ToolCall>;

/** What became of a message that runs a template: the template as it was then, filled in, or why there is nothing to run. */
export const MessageTemplate = z.union([
  z.object({
    name: z.string(),
    goal: z.string(),
    text: z.string().describe('Its steps and what stands around them, filled in, as Markdown.'),
    mode: Mode.optional(),
    limits: Limits.optional(),
  }),
  z.object({ fault: z.string().describe('Why it cannot be run; the reply says it.') }),
]);
export type MessageTemplate = z.infer<typeof MessageTemplate>;

/** What the model is asked beside the work: what kind of work it is, to make a plan, to revise it, to look at what is open, to sum up. */
export const Consult = z.enum(['choose', 'plan', 'replan', 'adapt', 'summary']);
export type Consult = z.infer<typeof Consult>;

/** The code of a slice of work, in the tags of its requests (`provenance.ts`). Records of earlier versions have none. */
const Seal = z
  .string()
  .regex(/^[0-9a-f]{12}$/)
  .optional()
  .describe('Drawn by chance: what marks data and the daemon in the requests from here on.');

export const RestStatus = z.enum(['done', 'paused', 'waiting', 'failed', 'cancelled']);
export type RestStatus = z.infer<typeof RestStatus>;

/** Who or what did it: a person (by message id or by hand), the model, or the daemon's own rule. */
export const By = z.enum(['person', 'model', 'daemon']);
export type By = z.infer<typeof By>;

/** One thing a person changed in `plan.json`. */
export const PlanChange = z.discriminatedUnion('what', [
  z.object({ what: z.literal('goal'), to: z.string(), from: z.string() }),
  z.object({ what: z.literal('limits'), to: z.object({ iterations: z.int(), step_iterations: z.int() }) }),
  z.object({ what: z.literal('order'), to: z.array(z.string()) }),
  z.object({ what: z.literal('added'), step: Step, at: z.int() }),
  z.object({ what: z.literal('removed'), step: z.string(), description: z.string() }),
  z.object({
    what: z.literal('status'),
    step: z.string(),
    from: StepStatus,
    to: StepStatus,
    note: z.string().optional().describe('What came out of it, or why.'),
  }),
  z.object({
    what: z.literal('step'),
    step: z.string(),
    set: Step.pick({
      description: true,
      needs: true,
      when: true,
      rollback: true,
      parent: true,
      done_when: true,
      notes: true,
      agent: true,
    })
      .partial()
      .describe('The new values.'),
    unset: z.array(z.enum(['needs', 'when', 'rollback', 'parent', 'done_when', 'notes', 'agent'])),
  }),
]);
export type PlanChange = z.infer<typeof PlanChange>;

const event = <T extends string, S extends z.ZodRawShape>(type: T, shape: S) =>
  z.object({ type: z.literal(type), ...shape });

const EVENTS = [
  event('session.opened', { format: z.literal(1), key: z.string() }),
  event('message.received', {
    id: z.string(),
    name: z.string().describe('Name of the reply file this message gets.'),
    from: z.string().optional(),
    body: Recorded,
    command: z.string().optional(),
    options: MessageOptions.optional(),
    attachments: z.array(z.string()).optional(),
    files: z.array(Attached).optional().describe('What the attachments were when the message was taken.'),
    as: z
      .literal('data')
      .optional()
      .describe('Its sender is none of `senders`: it is told to the model and orders nothing.'),
    template: MessageTemplate.optional(),
    file: FileIdentity,
  }),
  event('run.started', {
    message: z.string(),
    limits: Limits,
    beside: z.string().optional().describe('The paused plan this run leaves alone.'),
    model: z.string().optional(),
    mode: Mode.describe('`auto`: not chosen yet, the model is asked first.'),
    mode_reason: z.string().optional().describe('Why this mode, where the daemon chose it.'),
    agent: z.string().optional().describe('The profile that does the work.'),
    folder: z.string().optional().describe('The folder under `work/` its tools see as theirs.'),
    seal: Seal,
  }),
  event('run.resumed', {
    message: z.string(),
    name: z
      .string()
      .optional()
      .describe(
        'Name of the reply of a run that goes on by itself: what was set aside is tried again, or settings hold again.',
      ),
    by: By,
    limits: Limits,
    plan: z.string().optional().describe('A plan that had been set aside and is taken up again.'),
    model: z.string().optional(),
    seal: Seal,
  }),
  event('mode.chosen', { mode: Mode, mode_reason: z.string() }),
  event('mode.set', {
    mode: Mode.nullable().describe('Null: that of the settings again.'),
    message: z.string(),
  }),
  event('model.answered', {
    text: z.string(),
    calls: z.array(ToolCall),
    usage: Usage.omit({ iterations: true, ms: true }),
    model: z.string(),
    ms: z.number(),
    carried: z.array(z.string()).describe('Messages this call was the first to carry.'),
    seen: z.int().describe('The record up to this seq was in the request.'),
    step: z.string().optional().describe('The step that was at work when the model was asked.'),
    consult: Consult.optional().describe('A question beside the work; its answer is no turn of the conversation.'),
  }),
  event('model.failed', {
    error: z.string(),
    kind: z.enum(['unreachable', 'overloaded', 'rejected', 'too_long', 'malformed', 'aborted', 'unconfigured']),
    attempt: z.int().min(1),
    ms: z.number().optional().describe('How long the call took to fail.'),
    retry_at: z.string().nullable().describe('When it is tried again; null: it is not.'),
    window: z.int().min(1).optional().describe('Tokens the model takes at most, as far as this refusal shows.'),
  }),
  event('tool.started', {
    call: z.string().describe('`<seq of the answer>.<place in it>`: never used twice.'),
    name: z.string(),
    args: z.string(),
    replay: z.enum(['safe', 'never']),
  }),
  event('tool.finished', {
    call: z.string(),
    ok: z.boolean(),
    output: Recorded,
    ms: z.number(),
    images: z.array(ImageFile).optional().describe('Images that the model is shown behind the output.'),
    exit: z.int().nullish().describe('Of a command: its exit status; null where it did not end by itself.'),
  }),
  event('tool.interrupted', {
    call: z.string(),
    outcome: z.enum(['unknown', 'not_started']),
    why: z.string(),
    output: Recorded.optional(),
  }),
  event('approval.asked', {
    call: z.string(),
    id: z.int().min(1).describe('Its number in the session, from 1: the name of its file in approvals/.'),
    name: z.string().describe('The tool.'),
    args: z.string(),
    folder: z.string().optional(),
    hash: z.string().describe('Of tool, arguments and folder; an answer holds for these alone.'),
    why: z.string(),
    shows: z.string(),
    always: z.string().nullable().describe('The rule that is offered.'),
    expires_at: z.iso.datetime(),
  }),
  event('approval.answered', {
    call: z.string(),
    id: z.int().min(1).optional().describe('Without it nobody was asked: a rule denied the call.'),
    decision: z.enum(['allow', 'deny']),
    by: ApprovedBy,
    why: z.string().describe('What the model is told of a call that is denied.'),
    always: z.string().optional().describe('The rule that was added to session.json.'),
    message: z.string().optional().describe('The message that answered, or stands for the answer: its reply is next.'),
    name: z.string().optional().describe('Name of the reply, where the answer was no message.'),
    joins: z.boolean().optional().describe('What the message says is told to the model.'),
  }),
  event('plan.started', {
    id: z.string(),
    goal: z.string(),
    mode: Mode,
    limits: z.object({ iterations: z.int(), step_iterations: z.int() }),
    title: z.string().optional(),
    planned_by: z.string().optional(),
    steps: z.array(Step).optional().describe('The steps it begins with, where a planner or a template made it.'),
  }),
  event('plan.revised', {
    reason: z.string(),
    changes: z.array(PlanChange).describe('Open steps that go, change or come; what has ended stays.'),
  }),
  event('plan.edited', {
    by: By,
    changes: z.array(PlanChange),
    ignored: z.array(z.string()).describe('What the daemon did not take over, in words.'),
    save: PlanSave.optional().describe('The save of `plan.json` it came from, where it could be read.'),
  }),
  event('plan.ended', { plan: z.string(), status: PlanStatus, reason: z.string() }),
  event('step.added', { step: Step, by: By }),
  event('step.started', { step: z.string() }),
  event('step.progressed', { step: z.string(), progress: Progress }),
  event('step.claimed', {
    step: z.string(),
    tier: CompletedBy,
    evidence: z.string(),
    veto: z.string().optional().describe('Why it was not believed; without it its checks are tried.'),
    result: z.string().optional(),
    attachments: z.array(z.string()).optional(),
    to: z.string().optional(),
  }),
  event('step.asked', { step: z.string(), iterations: z.int() }),
  event('step.completed', {
    step: z.string(),
    by: CompletedBy,
    evidence: z.string(),
    markers: z.int().optional().describe('Markers in this answer, where there was more than one.'),
    result: z.string(),
    attachments: z.array(z.string()).optional().describe('Files under `work/` that the step wrote.'),
    to: z.string().optional().describe('The step the answer named as the one it goes on with.'),
  }),
  event('step.failed', { step: z.string(), error: z.string(), by: By }),
  event('step.blocked', { step: z.string(), error: z.string(), by: By }),
  event('step.skipped', { step: z.string(), reason: z.string(), by: By }),
  event('step.reopened', { step: z.string(), by: By, message: z.string().optional() }),
  event('child.sent', {
    step: z.string(),
    child: z.string().describe('The child session.'),
    attempt: z.int().min(1),
    message: z.string().describe('Id of the message it was sent.'),
    command: z.string().optional().describe('What it was told, where it was not given its task.'),
    folder: z.string().optional().describe('The folder under `work/` that it was given as its own.'),
    limits: Limits.optional().describe('What it may spend.'),
  }),
  event('child.replied', {
    step: z.string(),
    child: z.string(),
    attempt: z.int().min(1),
    message: z.string().describe('The message this answers.'),
    reply: Reply,
  }),
  event('context.compacted', {
    upto: z.int().describe('The record so far.'),
    summary: z.string().describe('Empty: a fresh conversation. Else what stands in the place of the turns left out.'),
    kept: z
      .int()
      .min(1)
      .optional()
      .describe('How many of the last messages of the conversation stay as they are; without it, none.'),
  }),
  event('run.rested', {
    message: z.string(),
    status: RestStatus,
    reason: z.string(),
    text: z.string().describe('What the reply says.'),
    spent: Usage,
    files: z
      .array(z.string())
      .optional()
      .describe('Files under `work/` that its reply brings along: they were there then.'),
    question: Question.extend({ call: z.string().describe('The call whose result the answer is.') })
      .optional()
      .describe('What `ask_user` asks: the next message is the answer.'),
  }),
  event('reply.committed', { message: z.string(), reply: Reply, file: FileIdentity.optional() }),
  event('reply.published', {
    message: z.string(),
    idle: z.boolean().describe('Nothing was open in the session after this.'),
  }),
  event('recovery.started', {
    open: z.array(z.string()).describe('What the last daemon left open, in words.'),
    after: z
      .enum(['crash', 'error', 'trouble', 'stop'])
      .optional()
      .describe('How it was left: a daemon that died, an error of its code, trouble with the disk, a stop in order.'),
    error: z.string().optional(),
    alone: z
      .int()
      .min(0)
      .optional()
      .describe(
        "Daemons lost in a row while nothing but this session was at work, or standing still in a step of it; 0: what was counted before turned out to be nobody's doing. Without it nothing is proven.",
      ),
  }),
  event('daemon.stopped', {
    open: z.array(z.string()).describe('What a daemon that ended in order left for the next one, in words.'),
  }),
] as const;

export const EventBody = z.discriminatedUnion('type', EVENTS);
export type EventBody = z.infer<typeof EventBody>;

/** A byte of the record. */
export const Place = z.object({ segment: z.int().min(1), offset: z.int().min(0) });
export type Place = z.infer<typeof Place>;

export const Stamp = z.object({
  v: z.literal(1),
  seq: z.int().min(1).describe('Without gaps from 1.'),
  epoch: z.int().min(1).describe('Which owner of the workspace wrote it.'),
  at: z.iso.datetime().describe('Wall time, for people; order is `seq` alone.'),
  fence: Place.optional().describe(
    'First line of an epoch: how far its writer had read. Lines between there and this one are void.',
  ),
});
export type Stamp = z.infer<typeof Stamp>;

/** One line of `events.jsonl`, without its crc. */
export const Event = z.intersection(Stamp, EventBody);
export type Event = Stamp & EventBody;
export type EventType = EventBody['type'];
export type EventOf<T extends EventType> = Stamp & Extract<EventBody, { type: T }>;
