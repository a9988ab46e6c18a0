import { getOwn, propertyOf } from '../../base/collections.ts';

/** The field names of an object in one layout, and their names in the next. */
type FieldNames = Readonly<Record<string, string>>;
type Fields = Readonly<Record<string, unknown>>;

/**
 * Migrates a snapshot of an earlier layout to the current one, which has the same fields under other names. If
 * retention has removed the start of the log, such a snapshot is all that is left of it, so every field is kept. Any
 * other value is returned unchanged.
 */
export function migrateSnapshot(state: unknown): unknown {
  const layout = propertyOf(state, 'layout');
  if (layout === 1) return migrateSnapshot(change(state, layout2FromLayout1));
  return layout === 2 ? change(state, layout3FromLayout2) : state;
}

const layout2FromLayout1 = (old: Fields): Fields => ({
  ...old,
  layout: 2,
  session: sessionFromLayout1(old['session']),
});

function layout3FromLayout2({ fold, left, ...old }: Fields): Fields {
  const session = change(old['session'], ({ approvals, children, plan, shelvedPlans, shelvedProgress, ...plain }) => ({
    ...plain,
    children: changeValues(children, childFromLayout2),
    plan: planFromLayout2(plan),
    shelvedPlans: changeValues(shelvedPlans, planFromLayout2),
    shelvedProgress: changeValues(shelvedProgress, (progress) =>
      change(progress, (it) => ({ ...it, children: changeValues(it['children'], childFromLayout2) })),
    ),
    approvals: change(approvals, ({ open, lastDecided, ...others }) => ({
      ...others,
      open: renameIn(open, { shows: 'display' }),
      lastDecided: renameIn(lastDecided, { shows: 'display' }),
    })),
  }));
  return { ...old, layout: 3, reducers: fold, left: planFromLayout2(left), session };
}

const childFromLayout2 = (child: unknown): unknown =>
  change(child, (old) => (old['state'] === 'held' ? { ...old, state: 'suspended' } : old));

const planFromLayout2 = (plan: unknown): unknown =>
  change(plan, (old) => ({
    ...old,
    steps: changeItems(old['steps'], (step) =>
      change(step, (it) => (it['on_failed_part'] === 'go_on' ? { ...it, on_failed_part: 'continue' } : it)),
    ),
  }));

function sessionFromLayout1(session: unknown): unknown {
  return change(session, (old) => {
    const { shelvedProgress, run, runEnd, turn, crashes, approvals, messages, ...plain } = rename(old, SESSION);
    return {
      ...progressFromLayout1(plain),
      shelvedProgress: changeValues(shelvedProgress, (progress) => change(progress, renameProgress)),
      run: renameIn(run, RUN),
      runEnd: renameIn(runEnd, RUN_END),
      turn: change(turn, turnFromLayout1),
      crashes: renameIn(crashes, CRASHES),
      approvals: change(approvals, approvalsFromLayout1),
      // An answered message is a row without field names.
      messages: changeItems(messages, (message) => renameIn(message, MESSAGE)),
    };
  });
}

const PLAN_PROGRESS: FieldNames = {
  rounds: 'workRounds',
  replaced: 'replacedSteps',
  weighed: 'reviewedSteps',
  split: 'fanOut',
  closed: 'closedSteps',
  stepNo: 'lastStepNumber',
  theirs: 'editedByPerson',
  handLimits: 'limitsByPerson',
  saves: 'planSaves',
};
/** `names` and `drops` are lists in a snapshot; their names have not changed. */
const SESSION: FieldNames = {
  ...PLAN_PROGRESS,
  uncarried: 'undelivered',
  unpublished: 'unpublishedReplies',
  generations: 'childGenerations',
  seal: 'promptNonce',
  rest: 'runEnd',
  setAside: 'shelvedPlans',
  asideWork: 'shelvedProgress',
  asked: 'askedIfDone',
  patience: 'graceIterations',
  trail: 'stepHistory',
  failing: 'toolFailures',
  windows: 'contextWindows',
  next: 'announcedStep',
  setbacks: 'crashes',
  jobsEnd: 'jobsEndSeq',
  stopped: 'lastStopSeq',
};
const WORK_ROUNDS: FieldNames = { ended: 'endedRounds', quiet: 'idleRounds' };
const FAN_OUT: FieldNames = {
  added: 'addedParts',
  before: 'partsBefore',
  listed: 'listedItems',
  group: 'groupSize',
  more: 'hasMore',
};
const CLAIM: FieldNames = { to: 'nextStep' };
const CHILD: FieldNames = {
  child: 'name',
  before: 'earlierAttempts',
  given: 'budget',
  at: 'repliedAt',
  awaiting: 'awaitedMessage',
  sent: 'messagesSent',
  halted: 'haltCommand',
  told: 'wasToldMore',
  saidBefore: 'undeliveredBefore',
  since: 'workingSince',
};
const RUN: FieldNames = {
  since: 'startedAt',
  ms: 'elapsedMs',
  beside: 'besidePlan',
  quiet: 'idleAnswers',
  repeat: 'repeatedCall',
  aside: 'shelvedPlan',
  consult: 'plannerQuery',
  exit: 'exitStatus',
};
const RUN_END: FieldNames = { beside: 'wasBeside', exit: 'exitStatus' };
const TURN: FieldNames = {
  userTurn: 'followsPerson',
  advanced: 'hasClosedStep',
  judged: 'isJudged',
  refused: 'refusedClaim',
  blocked: 'isBlocked',
  declared: 'declaredSteps',
};
const CALL: FieldNames = { main: 'mainArgument', head: 'outputHead' };
const CRASHES: FieldNames = {
  error: 'lastError',
  most: 'limit',
  shelved: 'timesShelved',
  gotOn: 'madeProgress',
  inCall: 'hadOpenCall',
};
const APPROVALS: FieldNames = { count: 'lastId', last: 'lastDecided', denied: 'denials' };
const PENDING_APPROVAL: FieldNames = { unseen: 'queuedBefore' };
const MESSAGE: FieldNames = { during: 'arrivedDuringRun', replied: 'isReplied' };

const renameProgress = (old: Fields): Fields => progressFromLayout1(rename(old, PLAN_PROGRESS));

/** Migrates the progress of a plan whose own fields already have their new names. */
function progressFromLayout1({ workRounds, fanOut, claim, children, ...plain }: Fields): Fields {
  return {
    ...plain,
    workRounds: renameIn(workRounds, WORK_ROUNDS),
    fanOut: renameIn(fanOut, FAN_OUT),
    claim: renameIn(claim, CLAIM),
    children: changeValues(children, (child) => renameIn(child, CHILD)),
  };
}

function turnFromLayout1(old: Fields): Fields {
  const turn = rename(old, TURN);
  return { ...turn, calls: changeItems(turn['calls'], (call) => renameIn(call, CALL)) };
}

function approvalsFromLayout1(old: Fields): Fields {
  const { open, lastDecided, ...plain } = rename(old, APPROVALS);
  return { ...plain, open: change(open, approvalFromLayout1), lastDecided: change(lastDecided, approvalFromLayout1) };
}

function approvalFromLayout1(old: Fields): Fields {
  const approval = rename(old, PENDING_APPROVAL);
  return { ...approval, run: renameIn(approval['run'], RUN) };
}

function rename(old: Fields, names: FieldNames): Fields {
  return Object.fromEntries(Object.entries(old).map(([key, value]) => [getOwn(names, key) ?? key, value]));
}

const renameIn = (value: unknown, names: FieldNames): unknown => change(value, (old) => rename(old, names));

/** Changes an object; null, undefined and lists are returned unchanged. */
function change(value: unknown, by: (old: Fields) => Fields): unknown {
  return isFields(value) ? by(value) : value;
}

function changeValues(value: unknown, by: (one: unknown) => unknown): unknown {
  return change(value, (old) => Object.fromEntries(Object.entries(old).map(([key, one]) => [key, by(one)])));
}

const changeItems = (value: unknown, by: (one: unknown) => unknown): unknown =>
  Array.isArray(value) ? value.map(by) : value;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
