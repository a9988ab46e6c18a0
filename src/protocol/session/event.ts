import { z } from 'zod';
import { ApprovedBy, ChildCall } from '../settings/permissions.ts';
import { Limits, Mode } from '../settings/run-options.ts';
import { BrowserReturned, BrowserTaken } from '../workspace/handover.ts';
import { SessionForked, WorkRestored, WorkSaved } from './checkpoint.ts';
import { Actor, EventStamp, FileIdentity, ModelFailureKind, ProviderFields, StandIn, StoredText } from './log-entry.ts';
import { MeaningAsked, MessageInterpreted } from './meaning-events.ts';
import {
  Attachment,
  ImageFile,
  MessageFile,
  MessageOptions,
  PlannedMessage,
  RenderedTemplate,
  SenderRights,
} from './message.ts';
import { CompletedBy, PlanStatus, SkipCause, Step, StepProgress } from './plan.ts';
import { EditRefusal, PlanChange, PlanSave } from './plan-edit.ts';
import { CallUsage, Reply, Usage, UserQuestion } from './reply.ts';

export const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  args: z.string().describe('The arguments as the model wrote them, usually JSON.'),
  via: z.string().optional().describe('The tool through which it was called.'),
  provider_fields: ProviderFields.optional().describe('Fields that the endpoint expects back, unchanged.'),
});
export type ToolCall = z.infer<typeof ToolCall>;

/** What the model is asked outside the work itself: to classify the work, to plan, to revise the plan, to summarise. */
export const PlannerQuery = z.enum(['choose', 'plan', 'revise', 'summary']);
export type PlannerQuery = z.infer<typeof PlannerQuery>;

/** The prompt nonce of a budget window, for the tags of its requests (`prompt-tags.ts`). Added when it is recorded. */
const PromptNonce = z
  .string()
  .regex(/^[0-9a-f]{12}$/)
  .optional()
  .describe('Random digits that mark data and the text of the daemon in the requests from here on.');

export const RunEndStatus = z.enum(['done', 'paused', 'waiting', 'failed', 'cancelled']);
export type RunEndStatus = z.infer<typeof RunEndStatus>;

const eventSchema = <T extends string, S extends z.ZodRawShape>(type: T, shape: S) =>
  z.object({ type: z.literal(type), ...shape });

const EVENT_SCHEMAS = [
  eventSchema('session.opened', { format: z.literal(1), key: z.string() }),
  eventSchema('session.forked', SessionForked.shape),
  eventSchema('message.received', {
    id: z.string(),
    name: z.string().describe('Name of the reply file this message gets.'),
    from: z.string().optional(),
    by: MessageFile.shape.by,
    rights: SenderRights.optional(),
    body: StoredText,
    command: z.string().optional(),
    options: MessageOptions.optional(),
    attachments: z.array(z.string()).optional(),
    files: z.array(Attachment).optional().describe('What the attachments were when the message was taken.'),
    as: z
      .literal('data')
      .optional()
      .describe('Its sender is not in `senders`: the model sees it as data, not as an instruction.'),
    template: RenderedTemplate.optional(),
    planned: PlannedMessage.optional().describe('The schedule that was made of a "/remind" or "/wait".'),
    file: FileIdentity,
  }),
  eventSchema('message.interpreted', MessageInterpreted.shape),
  eventSchema('meaning.asked', MeaningAsked.shape),
  eventSchema('run.started', {
    message: z.string(),
    limits: Limits,
    paused_plan: z.string().optional().describe('The paused plan that this run leaves unchanged.'),
    model: z.string().optional(),
    mode: Mode.describe('`auto`: not chosen yet, the model is asked first.'),
    mode_reason: z.string().optional().describe('Why this mode, if the daemon chose it.'),
    agent: z.string().optional().describe('The profile that does the work.'),
    folder: z.string().optional().describe('The folder under `work/` that its tools see as `work/`.'),
    nonce: PromptNonce,
  }),
  eventSchema('run.resumed', {
    message: z.string(),
    name: z.string().optional().describe('Name of the reply, if the run resumes because its settings are valid again.'),
    by: Actor,
    limits: Limits,
    plan: z.string().optional().describe('The plan that is resumed, if the message names one.'),
    paused_plan: z.string().optional().describe('The paused plan that this run still leaves unchanged.'),
    model: z.string().optional(),
    nonce: PromptNonce,
  }),
  eventSchema('mode.chosen', { mode: Mode, mode_reason: z.string() }),
  eventSchema('mode.set', { mode: Mode.nullable().describe('Null: the mode of the settings.'), message: z.string() }),
  eventSchema('model.set', { model: z.string().nullable().describe('Null: as in the settings.'), message: z.string() }),
  eventSchema('model.answered', {
    text: z.string(),
    calls: z.array(ToolCall),
    provider_fields: ProviderFields.optional().describe('Fields that the endpoint expects back, unchanged.'),
    usage: CallUsage,
    model: z.string(),
    ms: z.number(),
    delivered: z.array(z.string()).describe('Messages delivered to the model for the first time with this call.'),
    seen: z.int().describe('The event log up to this seq was in the request.'),
    step: z.string().optional().describe('The current step when the model was called.'),
    truncated: z.literal(true).optional().describe('It was cut off at the length limit of the endpoint.'),
    unfinished: z.string().optional().describe('Why the endpoint stopped it (finish_reason); it closes no step.'),
    instead_of: StandIn.optional(),
    planner_query: PlannerQuery.optional().describe('Its answer is not part of the conversation.'),
  }),
  eventSchema('model.failed', {
    error: z.string(),
    kind: ModelFailureKind,
    attempt: z.int().min(1),
    ms: z.number().optional().describe('How long the call took to fail.'),
    retry_at: z.string().nullable().describe('When it is retried; null: never.'),
    window: z.int().min(1).optional().describe('The context window in tokens, as far as this refusal shows.'),
    hint: z.enum(['call']).optional().describe('What the model is told then: how to call a tool.'),
  }),
  eventSchema('tool.started', {
    call: z.string().describe('`<seq of the answer>.<position in it>`: never used twice.'),
    name: z.string(),
    args: z.string(),
    replay: z.enum(['safe', 'never']),
  }),
  eventSchema('tool.finished', {
    call: z.string(),
    ok: z.boolean(),
    output: StoredText,
    ms: z.number(),
    images: z.array(ImageFile).optional().describe('Images shown to the model after the output.'),
    exit: z.int().nullish().describe('The exit status of a command; null if it did not end by itself.'),
    sha256: z.string().optional().describe('Hash of the file it wrote.'),
  }),
  eventSchema('tool.interrupted', {
    call: z.string(),
    outcome: z.enum(['unknown', 'not_started']),
    why: z.string(),
    output: StoredText.optional(),
  }),
  eventSchema('approval.asked', {
    call: z.string(),
    id: z.int().min(1).describe('Its number in the session, from 1: the name of its file in approvals/.'),
    name: z.string().describe('The tool.'),
    args: z.string(),
    folder: z.string().optional(),
    hash: z.string().describe('Hash of tool, arguments and folder; an answer applies only to these.'),
    why: z.string(),
    display: z.string(),
    always: z.string().nullable().describe('The rule that "always" would add.'),
    expires_at: z.iso.datetime(),
  }),
  eventSchema('approval.answered', {
    call: z.string(),
    id: z.int().min(1).optional().describe('Missing if nobody was asked because a rule denied the call.'),
    decision: z.enum(['allow', 'deny']),
    by: ApprovedBy,
    why: z.string().describe('The reason that the model sees for a denied call.'),
    always: z.string().optional().describe('The rule that was added to session.json.'),
    message: z.string().optional().describe('The message that answered, or a stand-in for it; its reply is next.'),
    name: z.string().optional().describe('Name of the reply, if the answer was not a message.'),
    joins: z.boolean().optional().describe('The text of the message is delivered to the model.'),
  }),
  eventSchema('browser.taken', BrowserTaken.shape),
  eventSchema('browser.returned', BrowserReturned.shape),
  eventSchema('plan.started', {
    id: z.string(),
    goal: z.string(),
    mode: Mode,
    limits: z.object({ iterations: z.int(), step_iterations: z.int() }),
    title: z.string().optional(),
    planned_by: z.string().optional(),
    unplanned: z.literal(true).optional().describe('As in the plan.'),
    steps: z.array(Step).optional().describe('Its first steps, if a planner or a template made it.'),
  }),
  eventSchema('plan.revised', {
    reason: z.string(),
    changes: z.array(PlanChange).describe('Open steps that are removed, changed or added; ended steps stay.'),
  }),
  eventSchema('plan.edited', {
    by: Actor,
    from: z.string().optional().describe('The author, if it was sent and names one.'),
    rights: SenderRights.optional().describe('What a server says the author may do; if missing, they are the owner.'),
    changes: z.array(PlanChange),
    ignored: z.array(z.string()).describe('What the daemon did not accept, in words.'),
    refused: EditRefusal.optional().describe('Why nothing of an order was accepted; `ignored` says it in words.'),
    save: PlanSave.optional().describe('The save of `plan.json` that caused it, if it could be read.'),
    order: z.string().optional().describe('Id of the file in `inbox/` that ordered it.'),
    file: FileIdentity.optional().describe('That file.'),
  }),
  eventSchema('plan.ended', { plan: z.string(), status: PlanStatus, reason: z.string() }),
  eventSchema('step.added', { step: Step, by: Actor }),
  eventSchema('step.started', { step: z.string() }),
  eventSchema('step.progressed', { step: z.string(), progress: StepProgress }),
  eventSchema('step.claimed', {
    step: z.string(),
    tier: CompletedBy,
    evidence: z.string(),
    veto: z.string().optional().describe('Why it was rejected; if missing, its checks are run.'),
    result: z.string().optional(),
    attachments: z.array(z.string()).optional(),
    next_step: z.string().optional(),
  }),
  eventSchema('step.asked', { step: z.string(), iterations: z.int(), in_doubt: z.literal(true).optional() }),
  eventSchema('step.completed', {
    step: z.string(),
    by: CompletedBy,
    evidence: z.string(),
    markers: z.int().optional().describe('Number of markers in this answer, if more than one.'),
    result: z.string(),
    attachments: z.array(z.string()).optional().describe('Files under `work/` that the step wrote.'),
    proof: z.array(z.string()).optional().describe('As in the plan; empty: it is unproven.'),
    next_step: z.string().optional().describe('The step that the answer named as the next one.'),
  }),
  eventSchema('step.failed', { step: z.string(), error: z.string(), by: Actor }),
  eventSchema('step.blocked', { step: z.string(), error: z.string(), because: SkipCause.optional(), by: Actor }),
  eventSchema('step.skipped', { step: z.string(), reason: z.string(), because: SkipCause.optional(), by: Actor }),
  eventSchema('step.reopened', { step: z.string(), by: Actor, message: z.string().optional() }),
  eventSchema('child.sent', {
    step: z.string(),
    child: z.string().describe('The child session.'),
    attempt: z.int().min(1),
    message: z.string().describe('Id of the message it was sent.'),
    command: z.string().optional().describe('The command it was sent instead of its task.'),
    folder: z.string().optional().describe('Its own folder under `work/`.'),
    limits: Limits.optional().describe('What it may spend.'),
  }),
  eventSchema('child.asked', {
    calls: z.array(ChildCall).describe('All calls of child sessions, and of theirs, that wait for a person by now.'),
    resumes: z.literal(true).optional().describe('The run that waited for a person goes on.'),
    message: z.string().optional().describe('The message that answered, or that stands in for one.'),
    name: z.string().optional().describe('Name of the reply, if no message answered.'),
    joins: z.literal(true).optional().describe('The message is passed on to the model.'),
  }),
  eventSchema('child.replied', {
    step: z.string(),
    child: z.string(),
    attempt: z.int().min(1),
    message: z.string().describe('The message this answers.'),
    reply: Reply,
  }),
  eventSchema('context.compacted', {
    upto: z.int().describe('The last event it covers.'),
    summary: z.string().describe('Replaces the turns left out; empty: a new conversation.'),
    kept: z
      .int()
      .min(1)
      .optional()
      .describe('How many of the last messages of the conversation stay unchanged; if missing, none.'),
  }),
  eventSchema('work.saved', WorkSaved.shape),
  eventSchema('work.restored', WorkRestored.shape),
  eventSchema('run.ended', {
    message: z.string(),
    status: RunEndStatus,
    reason: z.string(),
    text: z.string().describe('What the reply says.'),
    spent: Usage,
    files: z.array(z.string()).optional().describe('Files under `work/` attached to its reply; they existed then.'),
    question: UserQuestion.extend({ call: z.string().describe('The call whose result the answer is.') })
      .optional()
      .describe('The question of `ask_user`: the next message is the answer.'),
  }),
  eventSchema('reply.committed', { message: z.string(), reply: Reply, file: FileIdentity.optional() }),
  eventSchema('reply.published', {
    message: z.string(),
    idle: z.boolean().describe('Nothing was left to do in the session after this.'),
    plan_behind: z
      .literal(true)
      .optional()
      .describe('A full disk refused `plan.json`: the next start of the daemon writes it.'),
  }),
  eventSchema('recovery.started', {
    open: z.array(z.string()).describe('What the last daemon left open, in words.'),
    after: z
      .enum(['crash', 'error', 'trouble', 'stop'])
      .optional()
      .describe('How the last daemon ended: it died, an error in its code, a disk error, a normal stop.'),
    error: z.string().optional(),
    cut: z.array(z.string()).optional().describe('Names of what keeps a part that was cut off this log.'),
    crashes: z
      .int()
      .min(1)
      .optional()
      .describe(
        'Consecutive crashes with evidence against this session: the event loop hung in a step of it, or an error in its work was not caught. Missing without evidence.',
      ),
  }),
  eventSchema('daemon.stopped', {
    open: z.array(z.string()).describe('What a daemon that stopped normally left for the next one, in words.'),
  }),
] as const;

export const EventBody = z.discriminatedUnion('type', EVENT_SCHEMAS);
export type EventBody = z.infer<typeof EventBody>;

/** One line of `events.jsonl`, without its crc. */
export const Event = z.intersection(EventStamp, EventBody);
export type Event = EventStamp & EventBody;
export type EventType = EventBody['type'];
export type EventOf<T extends EventType> = EventStamp & Extract<EventBody, { type: T }>;
