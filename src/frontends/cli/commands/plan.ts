import { UserError } from '../../../protocol/errors.ts';
import { act, actingOptions } from '../act.ts';
import { clientOf, command, SESSION } from '../command.ts';
import { EXITS } from '../exit-codes.ts';
import { editPlan } from '../plan-editor.ts';
import { ORDER_USAGE, ORDERS, type Order, orderText } from '../plan-order.ts';
import { printDiff, printHistory } from '../plan-past.ts';
import { note, plain, say } from '../print.ts';

/** Seconds an order waits for its reply where a daemon runs and nothing else was asked for. */
const PATIENCE = 10;
const OWN = ['edit', 'history', 'diff'] as const;

const ACTIONS = `Actions:
${ORDERS.map((order) => `  ${ORDER_USAGE[order]}`).join('\n')}
  edit                with $VISUAL or $EDITOR
  history             who changed what, and when
  diff [from] [to]    between two revisions; without them, what the last change did`;

export const plan = command({
  usage: 'plan <session> [action] [args..]',
  describe: 'Print the plan as the record has it, change it, or see how it was changed',
  builder: (cli) =>
    actingOptions(
      cli
        .positional('session', SESSION)
        .positional('action', {
          choices: [...ORDERS, ...OWN],
          describe: 'What to do; without it the plan is printed',
        })
        .positional('args', { type: 'string', array: true, describe: 'What the action wants' })
        .option('after', { type: 'string', requiresArg: true, describe: 'add: put the new step behind this one' }),
    )
      .option('wait', {
        type: 'boolean',
        describe: `Wait for the reply to a change however long it takes; without it ${PATIENCE} s, where a daemon runs`,
      })
      .option('json', { type: 'boolean', describe: 'Print JSON; the plan as plan.json holds it, byte for byte' })
      .epilogue(ACTIONS)
      .example('$0 plan demo done step_2 "All five are there"', '')
      .example('$0 plan demo add Draw the chart --after 2', ''),
  async run(args) {
    const { action, session, after } = args;
    const words = [...(args.args ?? []), ...args._.slice(1).map(String)];
    const client = await clientOf(args);
    if (action === 'diff') await printDiff(client, session, words, args);
    else if (isOrder(action)) {
      const message = { command: 'plan', text: orderText(action, words, after) };
      const patience = args.wait || !client.daemon() ? {} : { wait: true, timeout: PATIENCE };
      return act(client, session, message, { ...args, ...patience }, { mustExist: true });
    } else {
      if (words.length > 0 || after !== undefined)
        throw new UserError(`${action ?? 'plan'} takes no more words.\nSee: agentctl plan --help`, EXITS.usage.code);
      if (action === 'history') await printHistory(client, session, args);
      else if (action === 'edit') await editPlan(client, session);
      else await printPlan(await client.show(session), args.json);
    }
    return 'ok';
  },
});

type Client = Awaited<ReturnType<typeof clientOf>>;

async function printPlan({ session }: Awaited<ReturnType<Client['show']>>, json: boolean | undefined): Promise<void> {
  const { planSummary, planText } = await import('../../../client/plan-text.ts');
  if (json) say(session.plan ? planText(session.plan).trimEnd() : 'null');
  else if (session.plan) say(plain(planSummary(session.plan, 'en')));
  else note('There is no plan.');
}

function isOrder(action: Order | (typeof OWN)[number] | undefined): action is Order {
  return ORDERS.some((order) => order === action);
}
