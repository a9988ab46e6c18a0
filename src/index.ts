/** The pure parts of agentd and its formats, for frontends and for whoever wants to measure them. */
export { detectStepCompletion, type StepTurn, type Verdict } from './core/completion/index.ts';
export { type Decision, decide } from './core/decide.ts';
export { parseStepDeclarations } from './core/declarations.ts';
export { fold } from './core/fold.ts';
export { classifyMessage } from './core/intent/index.ts';
export { emptySession, type Session } from './core/session.ts';
export { ready } from './core/steps.ts';
export { Config, type Rules, resolveRules, Settings } from './protocol/config.ts';
export { Event, EventBody } from './protocol/event.ts';
export { Limits } from './protocol/limits.ts';
export { MessageFile, MessageOptions } from './protocol/message.ts';
export { isSessionFolder, sessionFolder } from './protocol/names.ts';
export { EditedPlan, Plan, Step } from './protocol/plan.ts';
export { Reply } from './protocol/reply.ts';
export { publishedSchemas } from './protocol/schemas.ts';
