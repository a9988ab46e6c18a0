import { formatUtcTime } from '../../base/strings.ts';
import type { ChangeCounts } from '../../protocol/session/checkpoint.ts';

export const ENGLISH_REPLIES = {
  stopped: 'Stopped.',
  pausing: 'Paused.',
  cancelled: 'Cancelled.',
  nothingRuns: 'Nothing is running.',
  planned: (when: string, schedule: string) =>
    `Planned for ${when}. To change your mind: agentctl schedule remove ${schedule}`,
  alreadyPaused: 'The run is already paused. To end it: /cancel',
  nowPaused: 'The run was waiting for an answer; it is now paused.',
  alreadyEnded: 'The last run has already ended.',
  nothingToContinue: 'Nothing to continue. Send a task as an ordinary message.',
  noSuchPlan: (id: string, known: readonly string[]) =>
    `There is no shelved plan "${id}". ${known.length > 0 ? `Shelved: ${known.join(', ')}; "/continue <id>" resumes one.` : 'No plan is shelved. Say "/continue" to resume the current plan, if there is one.'}`,
  personBlocked: (steps: string) =>
    `Blocked by you: ${steps}. To unblock a step, set its "status" to "pending" in plan.json, then say "continue".`,
  nothingToUndo: 'No step of this plan has been closed.',
  stranded: (steps: string) =>
    `No step can start: ${steps} wait for each other. Change their "needs" in plan.json, or skip one, then say "continue".`,
  reopened: (step: string) => `"${step}" is open again.`,
  reopenedWhileIdle: (step: string) => `"${step}" is open again. Say "continue" to resume it.`,
  fresh: 'Started a new conversation.',
  freshArchived: (goal: string) => `Started a new conversation. The plan "${goal}" was moved to plans/.`,
  unknown: (name: string, nearest: string | undefined, known: string) =>
    `Unknown command "/${name}".${nearest ? ` Did you mean "/${nearest}"?` : ''} Commands: ${known}.`,
  failedSteps: (steps: string) => `Note: failed: ${steps}`,
  leftOut: (steps: string) => `Note: left out: ${steps}`,
  noTool: 'Note: no tool call of this plan succeeded. What its steps say is text, and nothing shows that it was done.',
  unproven: (steps: string) => `Note: unproven, because no tool call succeeded and the text is all there is: ${steps}`,
  assumed: (steps: string) => `Note: assumed done, because nothing indicated otherwise: ${steps}`,
  noWork: 'no tool was used in this step.',
  refused: (step: string, why: string) => `Note: the claim that "${step}" is done was rejected: ${why}`,
  notHeard:
    'Child sessions that begin from now on get it. Those at work now do not: to tell them, edit their steps in plan.json.',
  joined: 'This message was added to the current run; the reply to that run has the result.',
  kept: 'The model will see this message with the next task, as information only. This sender may not give instructions (setting `senders`).',
  forbidden: (name: string) =>
    `"/${name}" was not carried out: this sender may not give instructions. The setting \`senders\` lists who may.`,
  limit: (setting: string, value: number | string) => `Paused: limit reached (${setting} = ${value}).`,
  costUnknown: (limit: number) =>
    `Paused: limits.cost is ${limit}, but what the last answer cost is unknown: the endpoint reports no cost. Set model.prices, or remove limits.cost and use limits.tokens.`,
  truncated: 'The answer ends in the middle: it reached the length limit of the endpoint.',
  unfinished: (finish: string) =>
    `Paused: this answer is not finished. The endpoint stopped it (finish_reason "${finish}"${/filter|safety|block|prohibit/i.test(finish) ? ', its content filter' : ''}), so nothing in it counts as done.`,
  goOn: 'Say "continue" to resume.',
  settingsWait: (why: string) =>
    `Not started: a settings file is invalid, and this daemon has read no valid version of it.\n\n${why}\n\nFix or delete the file; work then resumes by itself.`,
  settingsNote: (why: string) =>
    `Note: a settings file is invalid; the last valid settings remain in force.\n\n${why}\n\nFix the file; changes apply immediately.`,
  ceiling: (value: number, setting: string) =>
    `Ended: the limit cannot be extended any further (${value} iterations, five times ${setting}). Raise ${setting} in agentd.json or session.json.`,
  outage: (minutes: number, why: string) =>
    `Paused: the model was unreachable for ${minutes} minutes (limits.outage_minutes). Last error: ${why}`,
  failed: (why: string) => `The model gave no answer: ${why}`,
  again: 'Say "continue" to try again.',
  helps: (commands: readonly string[]) => `What helps: ${commands.join(', or ')}.`,
  onceRepaired: (helps: string) => `${helps} Then say "continue".`,
  whenSupplied: 'To go on: send what is missing, or say "continue" once the obstacle is gone. To end it: /cancel',
  yourAnswer: (step: string | null) =>
    `To go on: send your answer, or say "continue".${step === null ? '' : ` If the step is done: /plan done ${step}`}`,
  repeats: (call: string, times: number, output: string) =>
    `Paused: the same call returned the same result ${times} times in a row, even after the model was asked for another approach.\nCall: ${call}\nResult: ${output}`,
  stagnation: (rounds: number) =>
    `Paused: ${rounds} rounds of work in a row completed nothing. To help, say "continue" with a hint. Open items:`,
  stillOpen: (step: string, attempt: number, iterations: number, tried: string) =>
    `- "${step}": attempt ${attempt}, ${iterations} iterations${tried ? `; tried: ${tried}` : ''}`,
  nothingReady: 'The run is waiting: no open step of the plan can start.',
  fixPlan: 'Fix it in plan.json, or skip a step, then say "continue".',
  noSummary: 'The model gave no summary. Plan status:',
  jobsRun: (jobs: string) => `Still running in the background: ${jobs}`,
  nobody: (agent: string, step: string) => `Note: there is no agent "${agent}"; the session itself did "${step}".`,
  shelved: (goal: string, id: string) =>
    `The plan "${goal}" was shelved and stays paused; "back" (or /continue ${id}) resumes it.`,
  goOnOrNew: (goal: string) =>
    `Go on with "${goal}", or is this a new task? Nothing was shelved, and nothing of what you wrote is lost.\n\nTo answer: "go on" (your words go with it) or "new task".`,
  stopOrGoOn: (said: string) =>
    `The run is held before its next call: should "${said}" stop it?\n\nTo answer: "go on" (your words go with it), or "stop"; "new task" begins what you wrote instead.`,
  doubtChoices: ['go on', 'new task'] as readonly string[],
  askedFirst: 'the person is asked first whether this is a new task',
  granted: (what: string, isCapped: boolean) =>
    isCapped
      ? `Limit of this part: ${what}, the most that the settings allow.`
      : `Limit of this part, as you said: ${what}.`,
  noAnswer:
    'These words neither allow nor deny the call, which still waits. The model gets them as soon as you have answered.',
  stoodIn: (list: string) => `Note: answered by another model (model.fallback): ${list}`,
  planNote: (problem: string) => `Note on plan.json: ${problem}`,
  cutNote: (kept: readonly string[]) =>
    kept.some((name) => name.startsWith('events.accepted-'))
      ? `Note on the event log: it was accepted without its end. What happened after that is not known here and may be done again; it is kept in ${kept.join(', ')}.`
      : `Note on the event log: an end that was not written completely, as after a power cut, was cut off. Nothing that was answered or run is lost. It is kept in ${kept.join(', ')}.`,
  idle: 'Nothing is running.',
  spent: (iterations: string, tokens: string, cost: string | null) =>
    `iterations ${iterations}, tokens ${tokens}${cost === null ? '' : `, cost ${cost}`}`,
  working: (goal: string) => `Working on: ${goal}`,
  noPlan: 'There is no plan.',
  lastRun: (status: string, reason: string) => `Last run: ${status} (${reason}).`,
  planIs: (status: string, reason: string) => `Plan: ${status}${reason === '' ? '' : ` (${reason})`}.`,
  retrying: (why: string, attempt: number, at: string) =>
    `The model gave no answer (attempt ${attempt}: ${why}); next attempt at ${formatUtcTime(at)}.`,
  stalled: 'Ended: the run would never have finished by itself. This is a bug in agentd; its log has the details.',
  byPerson: 'asked by a person',
  lost: (times: number, error: string) =>
    `agentd crashed ${times} times in a row while working on this, without any progress. Last error: ${error}\nThe task was suspended so that other messages can run.`,
  sendAgain: 'Send it again to retry.',
  asks: (id: number, tool: string, why: string) => `Approve this call? Call ${id}, ${tool}; ${why}.`,
  asksCut: (id: number) => `[truncated; the full text is in approvals/${id}.json]`,
  asksHow: (id: number, always: string | null, until: string) =>
    [
      `To answer: "yes" or "no" ("no, …" also tells the model why); /approve ${id} or /deny ${id}; or set "decision" in approvals/${id}.json to "allow" or "deny".`,
      ...(always === null
        ? []
        : [`To allow all similar calls in this session (${always}): "always", or /approve ${id} always.`]),
      `Other words answer nothing: they are kept for the model. If nobody answers by ${formatUtcTime(until)}, it is denied and work continues.`,
    ].join('\n'),
  browser: {
    taken:
      'You have the browser: use it on the page (agentctl open). The agent waits where it needs it. To give it back: /browser return',
    returned: 'The agent has its browser back.',
    notTaken: 'Nobody has taken the browser over.',
    agentHasIt: 'The browser is open, and the agent uses it. To take it over: /browser take',
    notOpen:
      'No browser is open in this session. The agent opens it when it first needs it, and it closes after some minutes without use: ask the agent to open a page.',
    heldBy: (from: string | null, since: string) =>
      `${from ?? 'The owner of the workspace'} has had the browser since ${formatUtcTime(since)}. To give it back to the agent: /browser return`,
    usage: 'Usage: /browser, /browser take, /browser return.',
  },
  restore: {
    usage: (known: string) =>
      `Usage: /restore <step or checkpoint> [path …]. ${known === '' ? 'No step of this plan has a checkpoint yet.' : `Checkpoints at the ends of steps: ${known}.`}`,
    noCheckpoint: (step?: string) =>
      `Nothing was undone: ${step === undefined ? 'no step of this plan has ended' : `${step} has no checkpoint, so its files are not known`}. Without --files, /undo reopens the step alone.`,
    off: 'No checkpoints are taken in this session (checkpoints.keep in the settings is 0).',
    running: 'Nothing was restored: a run is active. Pause it first (/pause), then send this again.',
    jobs: (jobs: string) => `Nothing was restored: background commands may write in work/ (${jobs}). End them first.`,
    children: (names: string) =>
      `Nothing was restored: child sessions still work in work/ (${names}). Stop them first (/stop).`,
    shared: (root: string) => `Nothing was restored: this session works in the folder of ${root}. Restore there.`,
    failed: (why: string, rescue: number | null) =>
      `The restore stopped. ${why}${rescue === null ? '' : ` What was there before is checkpoint ${rescue}.`}`,
    same: (checkpoint: number) => `Nothing had to be restored: the files are as they were at checkpoint ${checkpoint}.`,
    done: (checkpoint: number, { added, changed, removed }: ChangeCounts, rescue: number) =>
      `Restored from checkpoint ${checkpoint}: ${added} brought back, ${changed} changed back, ${removed} removed. To undo this: /restore ${rescue}`,
  },
  asksIn: (session: string, id: number, tool: string, why: string) =>
    `Approve this call? ${session}, call ${id}, ${tool}; ${why}.`,
  asksCutIn: (session: string, id: number) => `[truncated; the full text is in approvals/${id}.json of ${session}]`,
  asksHowIn: (session: string, count: number, always: string, until: string) =>
    [
      count === 1
        ? `To answer: "yes" or "no"; /approve or /deny; or agentctl approve ${session}.`
        : `To answer all ${count}: "yes" or "no"; /approve or /deny. To answer one: /approve ${session}, or agentctl approve ${session}.`,
      ...(always === '' ? [] : [`To allow all similar calls in this session (${always}): "always".`]),
      `Other words answer nothing. If nobody answers by ${formatUtcTime(until)}, it is denied and work continues.`,
    ].join('\n'),
  notThoseOf: (named: string, waiting: string) => `No call "${named}" is waiting for approval. Waiting: ${waiting}.`,
  nothingAsked: 'No call is waiting for approval.',
  notThatOne: (id: string, open: number) => `Call ${id} is not waiting for approval; call ${open} is.`,
  deniedAgain: (times: number, call: string, rule: string) =>
    `Paused: the same call was denied ${times} times.\nCall: ${call}\nTo allow it, add a rule to "permissions" in session.json, such as ${rule}, or approve it when asked again.`,
};

export type ReplyWording = typeof ENGLISH_REPLIES;
