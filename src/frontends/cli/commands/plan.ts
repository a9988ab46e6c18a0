import { clientOf, command, SESSION } from '../command.ts';
import { note, plain, say } from '../print.ts';

export const plan = command({
  usage: 'plan <session>',
  describe: 'Print the plan as the record has it',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .option('json', { type: 'boolean', describe: 'Print it as plan.json holds it, byte for byte' }),
  async run(args) {
    const { planSummary, planText } = await import('../../../client/index.ts');
    const { session } = await (await clientOf(args)).show(args.session);
    if (args.json) say(session.plan ? planText(session.plan).trimEnd() : 'null');
    else if (session.plan) say(plain(planSummary(session.plan, 'en')));
    else note('There is no plan.');
    return 'ok';
  },
});
