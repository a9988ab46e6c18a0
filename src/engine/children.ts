import type { Decision } from '../core/decide.ts';
import type { Child } from '../core/session.ts';
import type { Ledger } from './ledger.ts';
import type { World } from './ports.ts';

/**
 * Gives a child session its message. The effect comes first: the id is made of the step and the attempt, so a crash in between
 * sends the same message again, which changes nothing.
 */
export async function sendToChild(decision: Decision & { do: 'send' }, world: World, ledger: Ledger): Promise<void> {
  const { step, child, attempt, message } = decision;
  await ledger.sync();
  const heard = await world.children.send(child, message);
  const { id, command, options: { folder, limits } = {} } = message;
  await ledger.record([
    {
      type: 'child.sent',
      step,
      child,
      attempt,
      message: id,
      ...(command !== undefined && { command }),
      ...(folder !== undefined && { folder }),
      ...(limits && { limits }),
    },
  ]);
  if (heard === 'gone') await hearChildren(world, ledger);
}

/** Puts on record what children have answered, then lets the replies leave their outboxes. */
export async function hearChildren(world: World, ledger: Ledger): Promise<void> {
  for (const child of Object.values(ledger.session.children)) {
    if (child.state === 'working' || child.state === 'halting') await hear(child, world, ledger);
  }
}

async function hear({ step, child, attempt, awaiting: message }: Child, world: World, ledger: Ledger): Promise<void> {
  const reply = await world.children.reply(child, message);
  if (!reply) return;
  await ledger.record([{ type: 'child.replied', step, child, attempt, message, reply }]);
  await ledger.sync();
  await world.children.consume(child, step);
}
