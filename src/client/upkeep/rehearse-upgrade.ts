import { errorText, UserError } from '../../base/user-error.ts';
import { formatPlanFile } from '../../core/plan/plan-steps.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import { pendingWorkOf } from '../../core/session/session-queries.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import { stateFromSnapshot } from '../../core/session/snapshot.ts';
import { OLDER_RELEASE, unknownTo } from '../../protocol/session/older-versions.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import { assertEndIsThere } from '../../store/event-log/lost-end.ts';
import { readSnapshot } from '../../store/event-log/snapshot-file.ts';
import type { SessionPaths, WorkspacePaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { readRunningOwner } from '../../store/workspace/owner-file.ts';
import { openAccessTokens } from '../actions/access.ts';
import { listTemplates } from '../actions/saved-templates.ts';
import { openSchedules } from '../actions/schedules.ts';
import { checkSettingsFile } from '../actions/settings-edit.ts';
import { replayLog, sessionBeforeOldest } from '../sessions/replay.ts';
import type { SessionFolders } from '../sessions/session-folders.ts';

/** What a daemon of this version would find. `wrong`: it would not serve or use it; `change`: it would write it. */
export type RehearsalFinding = { file: string; is: 'wrong' | 'change' | 'note'; text: string };

/** The first event of a session that an older release cannot read: `what` in it that does not know. */
export type NewerEvent = { session: string; seq: number; at: string; what: string };

/**
 * What an upgrade to this version would do. `release`: the build before it; it serves every session but those in
 * `newer`, where it changes nothing.
 */
export type Rehearsal = {
  read: { sessions: number; events: number; settings: number; schedules: number; templates: number };
  findings: RehearsalFinding[];
  release: string;
  newer: NewerEvent[];
};

/** Reads every log, plan, schedule and settings file with the code of this version, and changes nothing. */
export async function rehearseUpgrade(
  paths: WorkspacePaths,
  folders: SessionFolders,
  configFile?: string,
): Promise<Rehearsal> {
  const names = folders.names();
  const roots = names.filter((name) => !name.includes('~'));
  const settings = [
    { path: configFile ?? paths.config, label: configFile ?? 'agentd.json', of: 'workspace' as const },
    ...roots.map((name) => {
      const label = `.sessions/${name}/session.json`;
      return { path: folders.get(name).settings, label, of: 'session' as const };
    }),
  ].map(checkSettingsFile);
  const schedules = openSchedules(paths.schedules, () => new Date()).list();
  const templates = await listTemplates(paths.templates);
  const wrong = (file: string, text: string): RehearsalFinding => ({ file, is: 'wrong', text });
  const findings = [
    ...settings.flatMap(({ file, fault, warnings }) => [
      ...(fault === null ? [] : [wrong(file, fault)]),
      ...warnings.map((text): RehearsalFinding => ({ file, is: 'note', text })),
    ]),
    ...schedules.flatMap(({ name, fault }) => (fault === null ? [] : [wrong(`schedules/${name}.json`, fault)])),
    ...templates.flatMap(({ name, faults }) => faults.map((fault) => wrong(`templates/${name}.md`, fault))),
    ...checkTokens(paths),
  ];
  const newer: NewerEvent[] = [];
  let events = 0;
  for (const name of names) {
    const found = await rehearseSession(paths, folders.get(name));
    findings.push(...found.findings.map(({ file, ...rest }) => ({ file: `.sessions/${name}/${file}`, ...rest })));
    if (found.newer) newer.push(found.newer);
    events += found.events;
  }
  const read = { sessions: names.length, events, schedules: schedules.length, templates: templates.length };
  const files = settings.filter(({ exists }) => exists).length;
  return { read: { ...read, settings: files }, findings, release: OLDER_RELEASE, newer };
}

function checkTokens(paths: WorkspacePaths): RehearsalFinding[] {
  try {
    openAccessTokens(paths).list();
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [{ file: '.agentd/tokens.json', is: 'wrong', text: error.message }];
  }
}

type RehearsedSession = { events: number; findings: RehearsalFinding[]; newer: NewerEvent | undefined };

async function rehearseSession(
  workspace: WorkspacePaths,
  paths: SessionPaths & { name: string },
): Promise<RehearsedSession> {
  const beforeOldest = sessionBeforeOldest(paths);
  let session = emptySession(paths.name);
  let newer: NewerEvent | undefined;
  let events = 0;
  const findings: RehearsalFinding[] = [];
  try {
    const extent = await readEventLog(
      paths,
      (event) => {
        events++;
        const what = newer ? undefined : unknownTo(OLDER_RELEASE, event);
        if (what !== undefined) newer = { session: paths.name, seq: event.seq, at: event.at, what };
        if (session.seq === 0 && event.seq > 1) session = beforeOldest(event.seq);
        if (event.seq > session.seq) session = reduceEvent(session, event);
      },
      'oldest',
    );
    const isServed = readRunningOwner(workspace) !== undefined;
    if (extent !== 'unfit' && !isServed) await assertEndIsThere(paths, extent, pendingWorkOf(session));
    if (extent !== 'unfit' && extent.torn > 0 && !isServed)
      findings.push({
        file: 'events.jsonl',
        is: 'change',
        text: `${extent.torn} bytes that a crash left unfinished are cut off, and kept in events.torn-${extent.good}`,
      });
    findings.push(...checkSnapshot(paths), ...(await checkPlan(paths, session)));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    findings.push({ file: 'events.jsonl', is: 'wrong', text: errorText(error) });
  }
  return { events, findings, newer };
}

/** One of another version is only a loss of time, unless it stands for events that retention has removed. */
function checkSnapshot(paths: SessionPaths & { name: string }): RehearsalFinding[] {
  const snapshot = readSnapshot(paths.snapshot);
  if (snapshot === undefined || stateFromSnapshot(snapshot.state, paths.name)?.current) return [];
  return [{ file: 'snapshot.json', is: 'change', text: 'it is of another version: the whole log is read once' }];
}

/** A plan that the reducers of this version would write differently would be taken for an edit by a person. */
async function checkPlan(paths: SessionPaths & { name: string }, { plan }: Session): Promise<RehearsalFinding[]> {
  const there = readPlanContent(paths.plan, undefined, 0)?.text;
  const wanted = plan ? formatPlanFile(plan) : undefined;
  if (there === wanted) return [];
  const change = (text: string): RehearsalFinding[] => [{ file: 'plan.json', is: 'change', text }];
  if (there === undefined) return change('it is missing, and is written again');
  let isOurs = false;
  await replayLog(paths, (_, before, { plan: after }) => {
    isOurs ||= after !== null && after !== before.plan && formatPlanFile(after) === there;
  });
  return isOurs
    ? change('it is behind the log, and is written again')
    : change('it has an edit that the log does not have, which is taken at the next start');
}
