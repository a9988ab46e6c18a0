import type { Mode } from '../../protocol/message.ts';
import { linear } from './linear.ts';
import { planAct } from './plan-act.ts';
import type { Policy } from './policy.ts';

export const POLICIES: Readonly<Record<Mode, Policy>> = { linear, 'plan-act': planAct };
