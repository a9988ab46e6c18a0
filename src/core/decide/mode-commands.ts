import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { MODES } from '../../protocol/settings/run-options.ts';
import { parseCommand, parseModeCommand } from '../messages/commands.ts';
import { replyInWords } from '../messages/replies.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/** `/mode` shows the mode; followed by a mode, it sets that mode for the next tasks. */
export function answerModeCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const command = parseModeCommand(message) ?? { is: 'show' };
  const known = [...MODES, 'default'].join(', ');
  if (command.is === 'unknown')
    return replyInWords(session, message, rules, (words) => words.noSuchMode(command.name, known), 'rejected');
  if (command.is !== 'set')
    return replyInWords(session, message, rules, (words) =>
      words.modeIs(session.mode ?? rules.mode, session.mode !== null, known),
    );
  const { mode } = command;
  return [
    { type: 'mode.set', mode, message: message.id },
    ...replyInWords(session, message, rules, (words) => words.modeSet(mode ?? rules.mode)),
  ];
}

/** `/model` shows the model; followed by a name, it sets that model for the next tasks. */
export function answerModelCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const [name = ''] = (parseCommand(message)?.rest ?? '').trim().split(/\s+/);
  const known = [...rules.models, 'default'].join(', ');
  const now = session.model ?? rules.model ?? '-';
  if (name === '')
    return replyInWords(session, message, rules, (words) => words.modelIs(now, session.model !== null, known));
  const model = name.toLowerCase() === 'default' ? null : name;
  const isNamed = model === null || rules.models.includes(model);
  return [
    { type: 'model.set', model, message: message.id },
    ...replyInWords(session, message, rules, (words) => words.modelSet(model ?? rules.model ?? '-', isNamed, known)),
  ];
}
