import { findAgentName } from '../../core/plan/plan-steps.ts';
import { hasRole, mayGiveOrders } from '../../core/session/sender-rights.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { MessageFile, SenderRights } from '../../protocol/session/message.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { Limits } from '../../protocol/settings/run-options.ts';
import type { DroppedFile } from '../ports/store-ports.ts';

/**
 * Whose messages are orders by these rules; undefined: everybody's. Nobody's while the settings that say it are
 * invalid.
 */
export const orderSenders = ({ senders, settingsFault }: Rules): Rules['senders'] =>
  settingsFault === null ? senders : [];

/** The flag for a sender who may not give orders here. Decided once: later settings do not change this message. */
export const dataFlagOf = ({ name }: Session, from: string | undefined, rules: Rules): { as: 'data' } | undefined =>
  mayGiveOrders(name, from, orderSenders(rules)) ? undefined : { as: 'data' };

/** A message stays in the inbox until it is known whether its sender may give orders here. */
export const isSenderKnown = (session: Session, drop: DroppedFile, rules: Rules): boolean =>
  rules.settingsFault === null || !drop.ok || dataFlagOf(session, drop.message.from, rules) === undefined;

/** Whether the settings bound what a sender may ask for; the owner and `admin` may ask for more. */
export const isBounded = (rights: SenderRights | undefined): boolean => !hasRole(rights, 'admin');

/** Which options of a message exceed what the settings allow its sender, in words; undefined if none does. */
export function optionsFault({ rights, options }: MessageFile, rules: Rules): string | undefined {
  if (!isBounded(rights) || !options) return undefined;
  const { limits = {}, model, agent } = options;
  const models = [rules.model, ...Object.values(rules.agents).map((profile) => profile.model)].filter(Boolean);
  const faults = [
    ...limitsBeyond(limits, rules.limits).map(
      (key) => `limits.${key} is ${limits[key]}, more than ${rules.limits[key]}`,
    ),
    ...(model !== undefined && !models.includes(model) ? [`model ${JSON.stringify(model)} is not named there`] : []),
    ...(agent !== undefined && findAgentName(rules.agents, agent) === undefined
      ? [`agent ${JSON.stringify(agent)} is not named there`]
      : []),
  ];
  if (faults.length === 0) return undefined;
  return `Expected options that the settings of this session allow a sender with the role "${rights?.role}", but ${faults.join('; ')}. Leave them out, or ask the owner of the workspace to change the settings.`;
}

/** The limits that are higher than these. */
export const limitsBeyond = (limits: Limits, most: Limits): Array<keyof Limits> =>
  Limits.keyof().options.filter(
    (key) => limits[key] !== undefined && heightOf(key, limits[key]) > heightOf(key, most[key]),
  );

/** No value, and 0 for `repeats`, mean no limit. */
const heightOf = (key: keyof Limits, value: number | null | undefined): number =>
  value === null || value === undefined || (key === 'repeats' && value === 0) ? Number.POSITIVE_INFINITY : value;
