import { STATE_LABELS } from '../commands/list.ts';
import { CONVERSATION_WORDS } from '../common/conversation-lines.ts';

const EN = {
  ...CONVERSATION_WORDS.en,
  language: 'en' as 'en' | 'zh',
  hint: '/help lists the commands; Ctrl-C stops the run; /quit leaves.',
  newSession: (name: string) => `${name} is a new session. It begins with your first message.`,
  others: (names: string) => `Other sessions: ${names}`,
  noSessions: 'There are no sessions yet. Name a new one: agentctl chat demo',
  noDaemon: 'no daemon is running: messages wait (agentctl start)',
  gone: (name: string) => `The session ${name} was removed, renamed or archived.`,
  working: 'working',
  idle: 'idle',
  stopping: 'stopping',
  states: { ...STATE_LABELS },
  yourTurn: 'waiting for you',
  notServed: 'no daemon',
  answerCall: 'allow, deny or always?',
  answerQuestion: 'your answer?',
  leaveHint: 'Press Ctrl-C again to leave; the run continues.',
  left: (command: string) => `The run continues. Come back with: ${command}`,
  approval: (id: number, session: string) => `Call ${id} of ${session} needs your approval`,
  approvalEnds: (time: string, rule: string | null) =>
    `allow, deny${rule === null ? '' : `, or always (adds the rule ${rule})`}. Without an answer it is denied at ${time}.`,
  unclear: 'A call waits for approval. Answer with allow, deny or always.',
  noCall: 'No call is waiting for approval.',
  noRule: 'This call has no rule to add: answer with allow or deny.',
  unknown: (name: string, near: string | undefined) =>
    `Unknown command: /${name}.${near === undefined ? '' : ` Did you mean /${near}?`} /help lists the commands.`,
  noPlan: 'There is no plan.',
  noSteps: 'The plan has no steps yet.',
  whyHelp: 'explains what closed each step, or what it is waiting for',
  helpHelp: 'lists the commands',
  quitHelp: 'leaves; the run continues',
  lines: (count: number) => `[+${count} lines] `,
  topHead: (sessions: number, waiting: number) =>
    `agentd · ${sessions} ${sessions === 1 ? 'session' : 'sessions'}${waiting > 0 ? ` · ${waiting} waiting for you` : ''}`,
  topKeys: '↑↓ select · Enter chat · p pause · c continue · s stop · q quit',
  sent: (command: string, name: string) => `Sent ${command} to ${name}.`,
  columns: { session: 'SESSION', state: 'STATE', step: 'STEP', spent: 'SPENT' },
  empty: 'No sessions. Create one with: agentctl send demo "…"',
  allow: 'allow?',
  inbox: (count: number) => `+${count} in the inbox`,
};

export type LiveWording = typeof EN;

const ZH: LiveWording = {
  ...CONVERSATION_WORDS.zh,
  language: 'zh',
  hint: '/help 列出命令；Ctrl-C 停止运行；/quit 离开。',
  newSession: (name) => `${name} 是新会话，从你的第一条消息开始。`,
  others: (names) => `其他会话：${names}`,
  noSessions: '还没有会话。请给新会话取名：agentctl chat demo',
  noDaemon: '守护进程未运行：消息会等待（agentctl start）',
  gone: (name) => `会话 ${name} 已被删除、改名或归档。`,
  working: '运行中',
  idle: '空闲',
  stopping: '正在停止',
  states: {
    none: '空闲',
    running: '运行中',
    waiting: '等待',
    paused: '已暂停',
    completed: '已完成',
    failed: '失败',
    cancelled: '已取消',
    unreadable: '无法读取',
  },
  yourTurn: '等你回答',
  notServed: '守护进程未运行',
  answerCall: '允许（allow）、拒绝（deny）还是总是（always）？',
  answerQuestion: '你的回答？',
  leaveHint: '再按一次 Ctrl-C 离开；运行会继续。',
  left: (command) => `运行会继续。回来请用：${command}`,
  approval: (id, session) => `${session} 的调用 ${id} 需要你批准`,
  approvalEnds: (time, rule) =>
    `allow 允许，deny 拒绝${rule === null ? '' : `，always 总是（加入规则 ${rule}）`}。到 ${time} 无人回答则拒绝。`,
  unclear: '有调用在等待批准。请回答 allow、deny 或 always。',
  noCall: '没有调用在等待批准。',
  noRule: '此调用没有可加入的规则：请回答 allow 或 deny。',
  unknown: (name, near) => `未知命令：/${name}。${near === undefined ? '' : `是不是 /${near}？`}/help 列出命令。`,
  noPlan: '没有计划。',
  noSteps: '计划还没有步骤。',
  whyHelp: '说明每个步骤因何结束，或在等什么',
  helpHelp: '列出命令',
  quitHelp: '离开；运行会继续',
  lines: (count) => `[+${count} 行] `,
  topHead: (sessions, waiting) => `agentd · ${sessions} 个会话${waiting > 0 ? ` · ${waiting} 个等你` : ''}`,
  topKeys: '↑↓ 选择 · Enter 对话 · p 暂停 · c 继续 · s 停止 · q 退出',
  sent: (command, name) => `已向 ${name} 发送 ${command}。`,
  columns: { session: '会话', state: '状态', step: '步骤', spent: '已用' },
  empty: '没有会话。新建：agentctl send demo "…"',
  allow: '允许？',
  inbox: (count) => `收件箱 +${count}`,
};

/** The words for a person, in the language of the locale in the environment: Chinese, else English. */
export function liveWording(env: NodeJS.ProcessEnv): LiveWording {
  return /^zh/i.test(env['LC_ALL'] || env['LC_MESSAGES'] || env['LANG'] || '') ? ZH : EN;
}
