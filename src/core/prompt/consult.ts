import type { Agent, Rules } from '../../protocol/config.ts';
import type { Consult } from '../../protocol/event.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { setIn } from '../../protocol/provenance.ts';
import type { ChatMessage } from '../chat.ts';
import type { Language } from '../language.ts';
import { policyOf } from '../modes/index.ts';
import { adaptationIn } from '../planner/adapting.ts';
import { readConsult } from '../planner/consulting.ts';
import { activePlan, type Session } from '../session.ts';
import { planContext } from './block.ts';
import { CONSULTING } from './consult-wording.ts';
import { WORDING } from './wording.ts';

/** The last message of a question beside the work: what is asked, what stands, and what was wrong with the last answer. */
export function consultBlock(session: Session, rules: Rules, ask: Consult, language: Language): string {
  const words = CONSULTING[language];
  const plan = activePlan(session);
  const lines = [
    policyOf(session).asks?.[ask]?.[language] ?? words[ask],
    ...(ask === 'summary' || ask === 'choose' ? [] : agentLines(rules.agents, language)),
    ...(plan ? [`${words.goal}: ${setIn(plan.goal)}`, ...planContext(plan, WORDING[language])] : []),
    ...(plan && ask === 'adapt' ? changeable(plan, language) : []),
    ...faultLines(session, rules, ask, language),
  ];
  return lines.join('\n');
}

function agentLines(agents: Readonly<Record<string, Agent>>, language: Language): string[] {
  const names = Object.entries(agents);
  if (names.length === 0) return [];
  const words = CONSULTING[language];
  return [words.agents, ...names.map(([name, { description = '' }]) => `- [${name}] ${description}`)];
}

/** What may be changed, with all that a change may touch. */
function changeable({ steps }: Plan, language: Language): string[] {
  const pending = steps.filter((step) => step.status === 'pending');
  const whole = ({ id, description, needs, when, rollback, parent, agent, done_when }: Step) =>
    JSON.stringify({ id, description, needs, when, rollback, parent, agent, done_when });
  return [CONSULTING[language].changeable, ...pending.map((step) => `- ${whole(step)}`)];
}

function faultLines(session: Session, rules: Rules, ask: Consult, language: Language): string[] {
  const read =
    ask === 'adapt' && session.run?.consult?.ask === ask
      ? adaptationIn(session, rules)
      : readConsult(session, rules, ask, policyOf(session).begins);
  return read?.is === 'fault' ? [CONSULTING[language].fault(setIn(read.why))] : [];
}

/** The system message of a question beside the work: the planner plans and calls nothing; who says what kind of work it is needs to know no more. */
export function consultSystem(ask: Consult, language: Language, date: string, instructions: string): ChatMessage {
  const words = CONSULTING[language];
  const { marks } = WORDING[language];
  if (ask === 'choose') return { role: 'system', content: `${words.sorter}\n${marks}` };
  return { role: 'system', content: [`${words.system(date)}\n${marks}`, instructions].filter(Boolean).join('\n\n') };
}
