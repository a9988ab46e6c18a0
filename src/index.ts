/**
 * What the npm package exports: the client, with which a program starts a daemon, sends messages and follows sessions;
 * the formats as zod schemas; and the pure parts, for measurements.
 */

export type { OutgoingMessage, SentMessage } from './client/actions/messaging.ts';
export { type Client, openClient } from './client/index.ts';
export { decide } from './core/decide/decide.ts';
export { detectStepCompletion, type StepTurn, type StepVerdict } from './core/detect/step-completion.ts';
export { parseStepDeclarations } from './core/detect/step-tags.ts';
export { classifyIntent } from './core/intent/intent.ts';
export { readySteps } from './core/plan/step-readiness.ts';
export { reduceEvent } from './core/reducers/reduce-event.ts';
export type { Decision } from './core/runs/decision.ts';
export { emptySession, type Session } from './core/session/session-state.ts';
export { publishedSchemas } from './protocol/json-schemas.ts';
export { Event, EventBody } from './protocol/session/event.ts';
export { MessageFile, MessageOptions } from './protocol/session/message.ts';
export { Plan, Step } from './protocol/session/plan.ts';
export { EditedPlan } from './protocol/session/plan-edit.ts';
export { Reply } from './protocol/session/reply.ts';
export { Config, Settings } from './protocol/settings/config.ts';
export { type Rules, resolveRules } from './protocol/settings/effective-settings.ts';
export { Limits } from './protocol/settings/run-options.ts';
export { isSessionFolder, sessionFolder } from './protocol/workspace/session-names.ts';
