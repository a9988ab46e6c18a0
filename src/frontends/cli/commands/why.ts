import type { StepWhy } from '../../../client/index.ts';
import { clientOf, command, JSON_OPTION, SESSION } from '../command.ts';
import { localTime, note, plain, say, sayJson } from '../print.ts';
import { recordOf } from '../record.ts';

export const why = command({
  usage: 'why <session> [step]',
  describe: 'Say what closed each step and in which words, or what it waits for',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .positional('step', { type: 'string', describe: 'Only this step: its id, number or description' })
      .option('json', JSON_OPTION)
      .example('$0 why demo step_2', ''),
  async run(args) {
    const { whyStep, whySteps } = await import('../../../client/why.ts');
    const { name, events } = await recordOf(await clientOf(args), args.session);
    const found = whySteps(name, events, localTime);
    const steps = args.step === undefined ? found.steps : [whyStep(found, args.step)];
    if (args.json) sayJson(steps);
    else if (steps.length > 0) say(steps.map(inWords).join('\n'));
    else note(found.plan ? 'The plan has no steps yet.' : 'There is no plan.');
    return 'ok';
  },
});

/** The sentence about a step; under it what was refused, and how it was closed and opened before. */
function inWords({ text, closed, moments }: StepWhy): string {
  const before = moments.filter((moment) => moment !== closed && moment.is !== 'asked' && moment.is !== 'claimed');
  return [text, ...before.map((moment) => `    it ${moment.text}.`)].map(plain).join('\n');
}
