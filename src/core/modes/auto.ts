import { chosenByModel } from '../choice/mode.ts';
import { spokenText } from '../commands.ts';
import { entryOf } from '../keyed.ts';
import { linear } from './linear.ts';
import type { Policy } from './policy.ts';

/**
 * A run whose mode the rules left open: the model is asked once, beside the work, what kind of work it is. From its answer on, or its
 * first failure to give one, the run has another mode and this one has no more to say.
 */
export const auto: Policy = {
  ...linear,
  emerges: false,
  declare: () => [],
  counsel({ run, messages }, rules) {
    if (!run) return null;
    const failed = run.failure?.last;
    const answer =
      run.consult?.ask === 'choose'
        ? { text: run.consult.text }
        : failed && failed.kind !== 'aborted'
          ? { error: failed.error }
          : undefined;
    if (!answer) return { ask: 'choose' };
    const said = spokenText(entryOf(messages, run.message) ?? { text: '' });
    return { record: [{ type: 'mode.chosen', ...chosenByModel(said, rules.modes, answer) }] };
  },
};
