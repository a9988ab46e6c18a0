import type { Language } from '../text/language.ts';

const en = {
  stopped: 'Stopped.',
  pausing: 'Paused.',
  cancelled: 'Cancelled.',
  nothingRuns: 'Nothing is running.',
  alreadyPaused: 'The run is paused already. To end it: /cancel',
  nowPaused: 'It was waiting for an answer; it is paused now.',
  alreadyEnded: 'The last run has ended already.',
  nothingToContinue: 'There is nothing to continue. Send a task as an ordinary message.',
  noSuchPlan: (id: string, known: readonly string[]) =>
    `There is no plan "${id}" that was set aside. ${known.length > 0 ? `Set aside: ${known.join(', ')}; "/continue <id>" brings one back.` : 'None is. Say "/continue" to go on with the plan at hand, if there is one.'}`,
  personBlocked: (steps: string) =>
    `Blocked by you: ${steps}. To have such a step worked on, set its "status" to "pending" in plan.json, then say "continue".`,
  nothingToUndo: 'No step of this plan has been closed.',
  stranded: (steps: string) =>
    `No step can begin: ${steps} wait for each other. Change their "needs" in plan.json, or skip one, then say "continue".`,
  reopened: (step: string) => `"${step}" is open again.`,
  reopenedRests: (step: string) => `"${step}" is open again. Say "continue" to go on with it.`,
  fresh: 'A fresh conversation has begun.',
  freshArchived: (goal: string) => `A fresh conversation has begun. The plan "${goal}" was put into plans/.`,
  unknown: (name: string, known: string) => `There is no command "/${name}". Known: ${known}.`,
  assumed: (steps: string) => `Note: assumed done, since nothing said otherwise: ${steps}`,
  refused: (step: string, why: string) => `Note: that "${step}" is done was not accepted: ${why}`,
  joined: 'This was taken up by the run that is on; its result comes with that reply.',
  kept: 'This is told to the model with the next task. Whoever sent it gives no orders here (setting `senders`).',
  forbidden: (name: string) =>
    `"/${name}" was not carried out: whoever sent it gives no orders here. Names that may are in the setting \`senders\`.`,
  limit: (setting: string, value: number | string) => `Paused: ${setting} = ${value} is reached.`,
  goOn: 'Say "continue" to go on from here.',
  settingsWait: (why: string) =>
    `Nothing is done: a settings file does not hold, and there are no earlier settings to go by.\n\n${why}\n\nMend or remove the file; the work goes on by itself as soon as it holds.`,
  settingsNote: (why: string) =>
    `Note: a settings file does not hold; the settings that held last are in force.\n\n${why}\n\nCorrect the file; it is taken at once.`,
  ceiling: (value: number, setting: string) =>
    `Ended: the limit was extended as far as it goes (${value} iterations, five times ${setting}). Raise ${setting} in agentd.json or session.json.`,
  outage: (minutes: number, why: string) =>
    `Paused: the model could not be reached for ${minutes} minutes (limits.outage_minutes). Last: ${why}`,
  failed: (why: string) => `The model gave no answer: ${why}`,
  again: 'Say "continue" to try again.',
  repeats: (call: string, times: number, output: string) =>
    `Paused: the same call gave the same result ${times} times in a row, also after another approach was asked for.\nCall: ${call}\nResult: ${output}`,
  standstill: (rounds: number) =>
    `Paused: ${rounds} rounds of work in a row completed nothing. A hint helps: say "continue" with it. Open items:`,
  stillOpen: (step: string, attempt: number, iterations: number, tried: string) =>
    `- "${step}": attempt ${attempt}, ${iterations} iterations${tried ? `; tried: ${tried}` : ''}`,
  nothingReady: 'The run waits: no open step of the plan can begin.',
  mendPlan: 'Mend it in plan.json, or skip a step, then say "continue".',
  noSummary: 'The model gave no summary. What the plan says:',
  jobsRun: (jobs: string) => `Still running in the background: ${jobs}`,
  nobody: (agent: string, step: string) => `Note: no agent is called "${agent}"; the session itself did "${step}".`,
  aside: (goal: string, id: string) =>
    `The plan "${goal}" was set aside, still paused; "/continue ${id}" brings it back.`,
  modeIs: (mode: string, bySession: boolean, known: string) =>
    `The mode is ${mode}${bySession ? ', set by /mode' : ', by the settings'}. To set it for this session: /mode <mode>. Known: ${known}.`,
  modeSet: (mode: string) => `The tasks to come in this session are done in the mode ${mode}.`,
  noSuchMode: (name: string, known: string) => `There is no mode "${name}". Known: ${known}.`,
  planNote: (problem: string) => `Note on plan.json: ${problem}`,
  idle: 'Nothing is running.',
  working: (goal: string) => `At work on: ${goal}`,
  noPlan: 'There is no plan.',
  rests: (status: string, reason: string) => `The last run rests: ${status} (${reason}).`,
  retrying: (why: string, attempt: number, at: string) =>
    `The model gave no answer (attempt ${attempt}: ${why}); next try at ${at}.`,
  stalled:
    'Ended: the run would never have come to an end by itself. This is an error in agentd; its log has the details.',
  byPerson: 'asked by a person',
  lost: (times: number, error: string) =>
    `The daemon was lost ${times} times in a row over this, and nothing came of it in between. The last time: ${error}\nIt is put aside, so that other messages go on.`,
  sendAgain: 'Send it again to have it tried again.',
  asks: (id: number, tool: string, why: string) => `May this be done? Call ${id}, ${tool}; ${why}.`,
  asksCut: (id: number) => `[cut here; all of it is in approvals/${id}.json]`,
  asksHow: (id: number, always: string | null, until: string) =>
    [
      `To answer: "yes" or "no"; /approve ${id} or /deny ${id}; or "decision" in approvals/${id}.json set to "allow" or "deny".`,
      ...(always === null
        ? []
        : [`For all calls like it in this session (${always}): "always", or /approve ${id} always.`]),
      `Without an answer until ${until} it is denied, and the work goes on.`,
    ].join('\n'),
  nothingAsked: 'No call waits for an answer.',
  notThatOne: (id: string, open: number) => `No call ${id} waits for an answer; call ${open} does.`,
  deniedAgain: (times: number, call: string, rule: string) =>
    `Paused: the same call was denied ${times} times.\nCall: ${call}\nTo allow it, add a rule to "permissions" in session.json, such as ${rule}, or say yes when it is asked about again.`,
};

const zh: typeof en = {
  stopped: '已停止。',
  pausing: '已暂停。',
  cancelled: '已取消。',
  nothingRuns: '没有正在运行的任务。',
  alreadyPaused: '任务已经暂停。要结束它：/cancel',
  nowPaused: '之前在等待回答，现在已暂停。',
  alreadyEnded: '上一次运行已经结束。',
  nothingToContinue: '没有可以继续的任务。请直接发送任务。',
  noSuchPlan: (id, known) =>
    `没有放到一边的计划“${id}”。${known.length > 0 ? `放到一边的有：${known.join(', ')}；“/continue <id>”可以取回。` : '目前一个也没有。如果有当前计划，“/continue”即可接着做。'}`,
  personBlocked: (steps) =>
    `由你标记为受阻：${steps}。要做这样的步骤，请在 plan.json 里把它的 "status" 改为 "pending"，然后回复“继续”。`,
  nothingToUndo: '这个计划还没有完成的步骤。',
  stranded: (steps) =>
    `没有步骤可以开始：${steps} 在互相等待。请在 plan.json 里修改它们的 "needs" 或跳过其中一个，然后回复“继续”。`,
  reopened: (step) => `“${step}”已重新打开。`,
  reopenedRests: (step) => `“${step}”已重新打开。回复“继续”即可接着做。`,
  fresh: '新的对话已开始。',
  freshArchived: (goal) => `新的对话已开始。计划“${goal}”已放入 plans/。`,
  unknown: (name, known) => `没有命令“/${name}”。可用：${known}。`,
  assumed: (steps) => `注意：以下步骤没有明确说明，推定完成：${steps}`,
  refused: (step, why) => `注意：“${step}”的完成声明没有被接受：${why}`,
  joined: '正在进行的任务已收到这条消息，结果会随那条回复一起给出。',
  kept: '这条消息会随下一个任务告诉模型。发送者在这里无权下命令（设置 `senders`）。',
  forbidden: (name) => `没有执行“/${name}”：发送者在这里无权下命令。有权的名字列在设置 senders 里。`,
  limit: (setting, value) => `已暂停：达到 ${setting} = ${value}。`,
  settingsWait: (why) =>
    `什么都没有做：设置文件无效，也没有之前有效的设置可用。\n\n${why}\n\n请改正或删除该文件；文件一旦有效，工作会自动继续。`,
  settingsNote: (why) =>
    `注意：设置文件无效，目前仍按上一次有效的设置工作。\n\n${why}\n\n请改正该文件；改正后立即生效。`,
  goOn: '回复“继续”（continue）即可从这里接着做。',
  ceiling: (value, setting) =>
    `已结束：限额已延长到上限（${value} 次迭代，即 ${setting} 的五倍）。请在 agentd.json 或 session.json 中提高 ${setting}。`,
  outage: (minutes, why) => `已暂停：模型连续 ${minutes} 分钟无法连接（limits.outage_minutes）。最后一次：${why}`,
  failed: (why) => `模型没有回答：${why}`,
  again: '回复“继续”（continue）可以重试。',
  repeats: (call, times, output) =>
    `已暂停：同样的调用连续 ${times} 次得到同样的结果，要求换方法后仍然如此。\n调用：${call}\n结果：${output}`,
  standstill: (rounds) => `已暂停：连续 ${rounds} 轮工作没有完成任何事项。给出提示并回复“继续”即可。未完成的事项：`,
  stillOpen: (step, attempt, iterations, tried) =>
    `- “${step}”：第 ${attempt} 次尝试，${iterations} 次迭代${tried ? `；已试过：${tried}` : ''}`,
  nothingReady: '任务在等待：计划里没有一个未完成的步骤可以开始。',
  mendPlan: '请在 plan.json 里修正，或跳过一个步骤，然后回复“继续”。',
  noSummary: '模型没有给出总结。计划的情况：',
  jobsRun: (jobs) => `仍在后台运行：${jobs}`,
  nobody: (agent, step) => `注意：没有叫“${agent}”的智能体；“${step}”由会话自己完成。`,
  aside: (goal, id) => `计划“${goal}”已放到一边，仍为暂停；“/continue ${id}”可以取回。`,
  modeIs: (mode, bySession, known) =>
    `当前模式为 ${mode}（${bySession ? '由 /mode 设定' : '来自设置'}）。为本会话设定：/mode <模式>。可用：${known}。`,
  modeSet: (mode) => `本会话今后的任务将以 ${mode} 模式进行。`,
  noSuchMode: (name, known) => `没有模式“${name}”。可用：${known}。`,
  planNote: (problem) => `关于 plan.json：${problem}`,
  idle: '没有正在运行的任务。',
  working: (goal) => `正在处理：${goal}`,
  noPlan: '没有计划。',
  rests: (status, reason) => `上一次运行：${status}（${reason}）。`,
  retrying: (why, attempt, at) => `模型没有回答（第 ${attempt} 次：${why}）；下次尝试：${at}。`,
  stalled: '已结束：这次运行自己永远不会结束。这是 agentd 的错误，详情见日志。',
  byPerson: '由用户要求',
  lost: (times, error) =>
    `守护进程在处理这件事时连续 ${times} 次中断，其间没有任何进展。最后一次：${error}\n这件事已放到一边，其他消息照常处理。`,
  sendAgain: '重新发送即可再试。',
  asks: (id, tool, why) => `可以这样做吗？调用 ${id}，${tool}；${why}。`,
  asksCut: (id) => `[此处截断；全文见 approvals/${id}.json]`,
  asksHow: (id, always, until) =>
    [
      `回答：“可以”或“不行”；/approve ${id} 或 /deny ${id}；也可以把 approvals/${id}.json 里的 "decision" 设为 "allow" 或 "deny"。`,
      ...(always === null ? [] : [`本会话中同类调用（${always}）都允许：“总是”，或 /approve ${id} always。`]),
      `到 ${until} 没有回答即视为拒绝，任务继续进行。`,
    ].join('\n'),
  nothingAsked: '没有等待批准的调用。',
  notThatOne: (id, open) => `没有等待批准的调用 ${id}；正在等待的是 ${open}。`,
  deniedAgain: (times, call, rule) =>
    `已暂停：同一个调用被拒绝了 ${times} 次。\n调用：${call}\n要允许它，请在 session.json 的 "permissions" 中加入规则，例如 ${rule}，或在再次询问时同意。`,
};

/** The daemon's words to a person. */
export const REPLY_WORDING: Record<Language, typeof en> = { en, zh };
