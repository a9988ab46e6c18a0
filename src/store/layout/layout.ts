import { join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';

/** Every path of a workspace. Pure: nothing is looked at or made. */
export const workspacePaths = (root: string) => ({
  root,
  config: join(root, 'agentd.json'),
  instructions: join(root, 'AGENTS.md'),
  templates: join(root, 'templates'),
  memory: join(root, 'MEMORY.md'),
  skills: join(root, 'skills'),
  /** Session folders a person put away. */
  archive: join(root, '.archive'),
  sessions: join(root, '.sessions'),
  session: (name: string) => `${root}/.sessions/${name}`,
  /** The daemon's own. */
  own: join(root, '.agentd'),
  /** A copy of `agentd.json` as it held last. */
  lastGood: join(root, '.agentd', 'agentd.last-good.json'),
  lastGoodOf: (file: string) => join(root, '.agentd', `config-${sha256(file).slice(0, 12)}.last-good.json`),
  lock: join(root, '.agentd', 'lock'),
  owner: join(root, '.agentd', 'owner.json'),
  log: join(root, '.agentd', 'daemon.log'),
  /** What programs show to `agentctl serve`. */
  token: join(root, '.agentd', 'token'),
  /** What the daemon sees and cannot serve, for whoever asks. */
  status: join(root, '.agentd', 'status.json'),
  /** Daemons that were lost, and what that says of sessions; who is at work now; and what the watchdog left. */
  losses: join(root, '.agentd', 'losses.json'),
  crashNote: join(root, '.agentd', 'crash-note.json'),
  /** Room kept for the last records on a full disk. */
  reserve: join(root, '.agentd', 'reserve'),
  schemas: join(root, '.agentd', 'schemas'),
});
export type WorkspacePaths = ReturnType<typeof workspacePaths>;

/**
 * Every path of one session. Pure: nothing is looked at or made. Asked for often: a path is put together only where it
 * is used.
 */
export const sessionPaths = (folder: string) => ({
  folder,
  settings: `${folder}/session.json`,
  /** A copy of it as it held last. */
  lastGood: `${folder}/session.last-good.json`,
  /** The record: the segment that is written to, and the sealed ones before it. */
  events: `${folder}/events.jsonl`,
  sealed: `${folder}/events`,
  segment: (number: number) => `${folder}/events/${String(number).padStart(6, '0')}.jsonl`,
  /** The snapshot that stands for segments which retention removed. */
  base: `${folder}/events/base.json`,
  /** What retention removed. */
  swept: `${folder}/retention.json`,
  /** Bytes cut off the end of the record at `offset`. */
  torn: (offset: number) => `${folder}/events.torn-${offset}`,
  snapshot: `${folder}/snapshot.json`,
  blobs: `${folder}/blobs`,
  inbox: `${folder}/inbox`,
  /** Where a sender writes before it links: on the same file system, out of sight. */
  inboxStaging: `${folder}/inbox/.tmp`,
  inboxFiles: `${folder}/inbox/.files`,
  /** Made and removed by whoever changed a file outside the inbox, so that the daemon looks at the session. */
  wakeFile: `${folder}/inbox/.wake`,
  outbox: `${folder}/outbox`,
  outboxStaging: `${folder}/outbox/.tmp`,
  outboxRead: `${folder}/outbox/read`,
  plan: `${folder}/plan.json`,
  plans: `${folder}/plans`,
  planHistory: `${folder}/plans/history`,
  work: `${folder}/work`,
  /** A folder for each call that has not ended durably. */
  tools: `${folder}/tools`,
  /** The browser's profile and cookies, where the session used one. */
  browser: `${folder}/browser`,
  /** Calls that wait for a person, and those that were answered. */
  approvals: `${folder}/approvals`,
  approvalsAnswered: `${folder}/approvals/answered`,
  /** A folder for each command in the background. */
  jobs: `${folder}/jobs`,
  live: `${folder}/live`,
  memory: `${folder}/MEMORY.md`,
  /** The project an editor opened the session for. */
  editor: `${folder}/editor.json`,
  done: `${folder}/done`,
  rejected: `${folder}/rejected`,
});
export type SessionPaths = ReturnType<typeof sessionPaths>;
