import { formatUtcTime } from '../../base/strings.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import { ENGLISH_REPLIES, type ReplyWording } from './reply-wording-english.ts';

const CHINESE_REPLIES: ReplyWording = {
  stopped: '已停止。',
  pausing: '已暂停。',
  cancelled: '已取消。',
  nothingRuns: '没有正在运行的任务。',
  planned: (when, schedule) => `已安排在 ${when}。取消：agentctl schedule remove ${schedule}`,
  alreadyPaused: '任务已经暂停。要结束它：/cancel',
  nowPaused: '之前在等待回答，现在已暂停。',
  alreadyEnded: '上一次运行已经结束。',
  nothingToContinue: '没有可以继续的任务。请直接发送任务。',
  noSuchPlan: (id, known) =>
    `没有搁置的计划“${id}”。${known.length > 0 ? `已搁置：${known.join(', ')}；“/continue <id>”可以恢复。` : '目前没有搁置的计划。如果有当前计划，“/continue”即可继续。'}`,
  personBlocked: (steps) =>
    `由你标记为受阻：${steps}。要解除受阻，请在 plan.json 里把它的 "status" 改为 "pending"，然后回复“继续”。`,
  nothingToUndo: '这个计划还没有完成的步骤。',
  stranded: (steps) =>
    `没有步骤可以开始：${steps} 在互相等待。请在 plan.json 里修改它们的 "needs" 或跳过其中一个，然后回复“继续”。`,
  reopened: (step) => `“${step}”已重新打开。`,
  reopenedWhileIdle: (step) => `“${step}”已重新打开。回复“继续”即可继续。`,
  fresh: '新的对话已开始。',
  freshArchived: (goal) => `新的对话已开始。计划“${goal}”已移到 plans/。`,
  unknown: (name, nearest, known) =>
    `未知命令“/${name}”。${nearest ? `您是指“/${nearest}”吗？` : ''}可用命令：${known}。`,
  failedSteps: (steps) => `注意：以下步骤失败了：${steps}`,
  leftOut: (steps) => `注意：以下步骤没有做：${steps}`,
  noTool: '注意：这个计划没有成功的工具调用。各步骤所说的只是文字，没有东西能证明它们已经做了。',
  unproven: (steps) => `注意：以下步骤未经证实，没有成功的工具调用，只有文字：${steps}`,
  assumed: (steps) => `注意：以下步骤没有明确说明，推定完成：${steps}`,
  noWork: '这一步没有用过任何工具。',
  refused: (step, why) => `注意：“${step}”的完成声明没有被接受：${why}`,
  notHeard: '之后开始的子会话会收到它；正在工作的收不到：要告诉它们，请在 plan.json 中修改它们的步骤。',
  joined: '正在进行的任务已收到这条消息，结果会随那条回复一起给出。',
  kept: '模型会在下一个任务中看到这条消息，仅作参考。发送者无权下达指令（设置 `senders`）。',
  forbidden: (name) => `没有执行“/${name}”：发送者无权下达指令。有权的名字列在设置 senders 里。`,
  limit: (setting, value) => `已暂停：达到限额（${setting} = ${value}）。`,
  costUnknown: (limit) =>
    `已暂停：limits.cost 是 ${limit}，但接口没有报告上一条回答的费用。请设置 model.prices，或删除 limits.cost，改用 limits.tokens。`,
  truncated: '回答在中途结束：已达到接口的长度上限。',
  unfinished: (finish) =>
    `已暂停：这条回答没有写完。接口中止了它（finish_reason “${finish}”${/filter|safety|block|prohibit/i.test(finish) ? '，即内容过滤' : ''}），其中的内容都不算完成。`,
  settingsWait: (why) =>
    `没有开始：设置文件无效，守护进程启动后也没有读到过有效的版本。\n\n${why}\n\n请改正或删除该文件；之后工作会自动继续。`,
  settingsNote: (why) =>
    `注意：设置文件无效，目前仍按上一次有效的设置工作。\n\n${why}\n\n请改正该文件；改正后立即生效。`,
  goOn: '回复“继续”（continue）即可继续。',
  ceiling: (value, setting) =>
    `已结束：限额已延长到上限（${value} 次迭代，即 ${setting} 的五倍）。请在 agentd.json 或 session.json 中提高 ${setting}。`,
  outage: (minutes, why) => `已暂停：模型连续 ${minutes} 分钟无法连接（limits.outage_minutes）。最后的错误：${why}`,
  failed: (why) => `模型没有回答：${why}`,
  again: '回复“继续”（continue）可以重试。',
  helps: (commands) => `可以这样做：${commands.join('，或 ')}。`,
  onceRepaired: (helps) => `${helps}修好之后，回复“继续”（continue）。`,
  whenSupplied: '要继续：请发来所缺的内容，或在障碍消除后回复“继续”。要结束：/cancel',
  yourAnswer: (step) => `要继续：请回答，或回复“继续”。${step === null ? '' : `如果这一步已完成：/plan done ${step}`}`,
  repeats: (call, times, output) =>
    `已暂停：同样的调用连续 ${times} 次得到同样的结果，要求换方法后仍然如此。\n调用：${call}\n结果：${output}`,
  stagnation: (rounds) => `已暂停：连续 ${rounds} 轮工作没有完成任何事项。给出提示并回复“继续”即可。未完成的事项：`,
  stillOpen: (step, attempt, iterations, tried) =>
    `- “${step}”：第 ${attempt} 次尝试，${iterations} 次迭代${tried ? `；已试过：${tried}` : ''}`,
  nothingReady: '任务在等待：计划里没有一个未完成的步骤可以开始。',
  fixPlan: '请在 plan.json 里修正，或跳过一个步骤，然后回复“继续”。',
  noSummary: '模型没有给出总结。计划状态：',
  jobsRun: (jobs) => `仍在后台运行：${jobs}`,
  nobody: (agent, step) => `注意：没有叫“${agent}”的智能体；“${step}”由会话自己完成。`,
  shelved: (goal, id) => `计划“${goal}”已搁置，仍为暂停；回复“回去”（或 /continue ${id}）即可恢复。`,
  goOnOrNew: (goal) =>
    `是继续“${goal}”，还是一个新任务？目前没有搁置任何东西，您写的内容也不会丢失。\n\n请回答：“继续”（您的话会一并转达）或“新任务”。`,
  stopOrGoOn: (said) =>
    `任务已在下一个调用之前停住：“${said}”是要停止吗？\n\n请回答：“继续”（您的话会一并转达）或“停止”；“新任务”则改做您写的内容。`,
  doubtChoices: ['继续', '新任务'],
  askedFirst: '先询问用户这是否是一个新任务',
  granted: (what, isCapped) =>
    isCapped ? `这一段的限额：${what}，这是设置允许的上限。` : `这一段的限额按您所说：${what}。`,
  noAnswer: '这些话既没有批准也没有拒绝这个调用，它仍在等待。您回答之后，模型会马上收到这些话。',
  stoodIn: (list) => `注意：由其他模型代答（model.fallback）：${list}`,
  planNote: (problem) => `关于 plan.json：${problem}`,
  cutNote: (kept) =>
    kept.some((name) => name.startsWith('events.accepted-'))
      ? `关于事件日志：它在缺少结尾的情况下被接受。此后发生的事在这里未知，可能会再做一次；它保存在 ${kept.join('、')}。`
      : `关于事件日志：一段没有写完整的结尾（例如断电之后）已被截去。已经答复或执行过的内容都没有丢失。它保存在 ${kept.join('、')}。`,
  idle: '没有正在运行的任务。',
  spent: (iterations, tokens, cost) => `轮次 ${iterations}，tokens ${tokens}${cost === null ? '' : `，费用 ${cost}`}`,
  working: (goal) => `正在处理：${goal}`,
  noPlan: '没有计划。',
  lastRun: (status, reason) => `上一次运行：${status}（${reason}）。`,
  planIs: (status, reason) => `计划：${status}${reason === '' ? '' : `（${reason}）`}。`,
  retrying: (why, attempt, at) => `模型没有回答（第 ${attempt} 次：${why}）；下次尝试：${formatUtcTime(at)}。`,
  stalled: '已结束：这次运行自己永远不会结束。这是 agentd 的缺陷，详情见日志。',
  byPerson: '由用户要求',
  lost: (times, error) =>
    `agentd 在处理这件事时连续崩溃 ${times} 次，其间没有任何进展。最后的错误：${error}\n这个任务已搁置，其他消息照常处理。`,
  sendAgain: '重新发送即可再试。',
  asks: (id, tool, why) => `批准这个调用吗？调用 ${id}，${tool}；${why}。`,
  asksCut: (id) => `[已截断；全文见 approvals/${id}.json]`,
  asksHow: (id, always, until) =>
    [
      `回答：“可以”或“不行”（“不行，……”会把原因告诉模型）；/approve ${id} 或 /deny ${id}；也可以把 approvals/${id}.json 里的 "decision" 设为 "allow" 或 "deny"。`,
      ...(always === null ? [] : [`本会话中同类调用（${always}）都允许：“总是”，或 /approve ${id} always。`]),
      `其他的话不算回答，会留给模型。到 ${formatUtcTime(until)} 没有回答即视为拒绝，任务继续进行。`,
    ].join('\n'),
  browser: {
    taken: '浏览器已由你接管：请在网页上使用它（agentctl open）。智能体需要浏览器时会等待。交还：/browser return',
    returned: '浏览器已交还给智能体。',
    notTaken: '没有人接管浏览器。',
    agentHasIt: '浏览器已打开，正由智能体使用。接管：/browser take',
    notOpen: '这个会话没有打开的浏览器。智能体第一次需要时会打开它，几分钟不用就会关闭：请让智能体打开一个网页。',
    heldBy: (from, since) =>
      `${from ?? '工作区的所有者'}从 ${formatUtcTime(since)} 起正在使用浏览器。交还给智能体：/browser return`,
    usage: '用法：/browser、/browser take、/browser return。',
  },
  restore: {
    usage: (known) =>
      `用法：/restore <步骤或检查点> [路径 …]。${known === '' ? '这个计划还没有带检查点的步骤。' : `各步骤结束时的检查点：${known}。`}`,
    noCheckpoint: (step) =>
      `没有撤销：${step === undefined ? '这个计划还没有结束的步骤' : `${step} 没有检查点，无法得知它的文件`}。不带 --files 时，/undo 只重新打开步骤。`,
    off: '这个会话不保存检查点（设置中的 checkpoints.keep 为 0）。',
    running: '没有恢复任何文件：有任务正在运行。请先暂停（/pause），然后重新发送。',
    jobs: (jobs) => `没有恢复任何文件：后台命令可能正在写入 work/（${jobs}）。请先结束它们。`,
    children: (names) => `没有恢复任何文件：子会话仍在 work/ 中工作（${names}）。请先停止它们（/stop）。`,
    shared: (root) => `没有恢复任何文件：这个会话在 ${root} 的文件夹中工作。请在那里恢复。`,
    failed: (why, rescue) => `恢复已停止。${why}${rescue === null ? '' : `之前的内容保存在检查点 ${rescue}。`}`,
    same: (checkpoint) => `无需恢复：文件与检查点 ${checkpoint} 时相同。`,
    done: (checkpoint, { added, changed, removed }, rescue) =>
      `已从检查点 ${checkpoint} 恢复：找回 ${added} 个，改回 ${changed} 个，删除 ${removed} 个。撤销：/restore ${rescue}`,
  },
  asksIn: (session, id, tool, why) => `批准这个调用吗？${session}，调用 ${id}，${tool}；${why}。`,
  asksCutIn: (session, id) => `[已截断；全文见 ${session} 的 approvals/${id}.json]`,
  asksHowIn: (session, count, always, until) =>
    [
      count === 1
        ? `回答：“可以”或“不行”；/approve 或 /deny；也可以运行 agentctl approve ${session}。`
        : `一起回答这 ${count} 个：“可以”或“不行”；/approve 或 /deny。只回答一个：/approve ${session}，或 agentctl approve ${session}。`,
      ...(always === '' ? [] : [`本会话中同类调用（${always}）都允许：“总是”。`]),
      `其他的话不算回答。到 ${formatUtcTime(until)} 没有回答即视为拒绝，任务继续进行。`,
    ].join('\n'),
  notThoseOf: (named, waiting) => `没有等待批准的调用“${named}”。正在等待的是 ${waiting}。`,
  nothingAsked: '没有等待批准的调用。',
  notThatOne: (id, open) => `调用 ${id} 不在等待批准；正在等待的是 ${open}。`,
  deniedAgain: (times, call, rule) =>
    `已暂停：同一个调用被拒绝了 ${times} 次。\n调用：${call}\n要允许它，请在 session.json 的 "permissions" 中加入规则，例如 ${rule}，或在再次询问时同意。`,
};

/** The daemon's words to a person. */

export const REPLY_WORDING: Record<Language, ReplyWording> = { en: ENGLISH_REPLIES, zh: CHINESE_REPLIES };
