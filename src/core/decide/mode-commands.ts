import type { EventBody } from '../../protocol/session/event.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
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
    return replyInWords(
      session,
      message,
      rules,
      (_, language) => WORDS[language].noSuchMode(command.name, known),
      'rejected',
    );
  if (command.is !== 'set')
    return replyInWords(session, message, rules, (_, language) =>
      WORDS[language].modeIs(session.mode ?? rules.mode, session.mode !== null, known),
    );
  const { mode } = command;
  return [
    { type: 'mode.set', mode, message: message.id },
    ...replyInWords(session, message, rules, (_, language) => WORDS[language].modeSet(mode ?? rules.mode)),
  ];
}

/** `/model` shows the model; followed by a name, it sets that model for the next tasks. */
export function answerModelCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const [name = ''] = (parseCommand(message)?.rest ?? '').trim().split(/\s+/);
  const known = [...rules.models, 'default'].join(', ');
  const now = session.model ?? rules.model ?? '-';
  if (name === '')
    return replyInWords(session, message, rules, (_, language) =>
      WORDS[language].modelIs(now, session.model !== null, known),
    );
  const model = name.toLowerCase() === 'default' ? null : name;
  const isNamed = model === null || rules.models.includes(model);
  return [
    { type: 'model.set', model, message: message.id },
    ...replyInWords(session, message, rules, (_, language) =>
      WORDS[language].modelSet(model ?? rules.model ?? '-', isNamed, known),
    ),
  ];
}

const ENGLISH = {
  modeIs: (mode: string, bySession: boolean, known: string) =>
    `The mode is ${mode}${bySession ? ', set by /mode' : ', from the settings'}. To set it for this session: /mode <mode>. Modes: ${known}.`,
  modelIs: (model: string, bySession: boolean, known: string) =>
    `The model is ${model}${bySession ? ', set by /model' : ', from the settings'}. To set it for this session: /model <name>. Names: ${known}, or what the endpoint calls its models.`,
  modelSet: (model: string, isNamed: boolean, known: string) =>
    `New tasks in this session will use the model ${model}.${isNamed ? '' : ` It is none of the names in the settings (${known}), so the endpoint has to know it.`}`,
  modeSet: (mode: string) => `New tasks in this session will use the mode ${mode}.`,
  noSuchMode: (name: string, known: string) => `Unknown mode "${name}". Modes: ${known}.`,
};

/** What the two commands say. */
const WORDS: Record<Language, typeof ENGLISH> = {
  en: ENGLISH,
  zh: {
    modeIs: (mode, bySession, known) =>
      `当前模式为 ${mode}（${bySession ? '由 /mode 设定' : '来自设置'}）。为本会话设定：/mode <模式>。可用：${known}。`,
    modelIs: (model, bySession, known) =>
      `当前模型是 ${model}${bySession ? '，由 /model 设定' : '，来自设置'}。为本会话设定：/model <名称>。可用名称：${known}，或接口自己的模型名。`,
    modelSet: (model, isNamed, known) =>
      `本会话今后的任务将使用模型 ${model}。${isNamed ? '' : `它不在设置的名称（${known}）之中，接口必须认识它。`}`,
    modeSet: (mode) => `本会话今后的任务将以 ${mode} 模式进行。`,
    noSuchMode: (name, known) => `未知模式“${name}”。可用：${known}。`,
  },
};
