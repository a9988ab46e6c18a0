import { join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';

/** Every path of a workspace. Pure: nothing is read or created. */
export const workspacePaths = (root: string) => ({
  root,
  config: join(root, 'agentd.json'),
  instructions: join(root, 'AGENTS.md'),
  templates: join(root, 'templates'),
  memory: join(root, 'MEMORY.md'),
  skills: join(root, 'skills'),
  /** Session folders a person archived. */
  archive: join(root, '.archive'),
  sessions: join(root, '.sessions'),
  session: (name: string) => `${root}/.sessions/${name}`,
  /** The daemon's own folder. */
  own: join(root, '.agentd'),
  /** The last valid copy of `agentd.json`. */
  lastGood: join(root, '.agentd', 'agentd.last-good.json'),
  lastGoodOf: (file: string) => join(root, '.agentd', `config-${sha256(file).slice(0, 12)}.last-good.json`),
  lock: join(root, '.agentd', 'lock'),
  owner: join(root, '.agentd', 'owner.json'),
  log: join(root, '.agentd', 'daemon.log'),
  /** The token that programs present to `agentctl serve`. */
  token: join(root, '.agentd', 'token'),
  /** Further tokens, each with what its holder may do. */
  tokens: join(root, '.agentd', 'tokens.json'),
  /** What the daemon watches and cannot serve, for other programs. */
  status: join(root, '.agentd', 'status.json'),
  /** Lost daemons and the sessions to blame; the active session; and the watchdog's note. */
  crashes: join(root, '.agentd', 'crashes.json'),
  crashNote: join(root, '.agentd', 'crash-note.json'),
  /** Space reserved for the last events on a full disk. */
  reserve: join(root, '.agentd', 'reserve'),
  schemas: join(root, '.agentd', 'schemas'),
});
export type WorkspacePaths = ReturnType<typeof workspacePaths>;

/** Every path of one session. Pure: nothing is read or created. Called often: a path is built only when it is used. */
export const sessionPaths = (folder: string) => ({
  folder,
  settings: `${folder}/session.json`,
  /** The last valid copy of it. */
  lastGood: `${folder}/session.last-good.json`,
  /** The event log: the current segment, and the rotated ones before it. */
  events: `${folder}/events.jsonl`,
  rotated: `${folder}/events`,
  segment: (number: number) => `${folder}/events/${String(number).padStart(6, '0')}.jsonl`,
  /** The base snapshot for segments that retention removed. */
  base: `${folder}/events/base.json`,
  /** What retention removed. */
  swept: `${folder}/retention.json`,
  /** Bytes cut off the end of the event log at `offset`. */
  torn: (offset: number) => `${folder}/events.torn-${offset}`,
  snapshot: `${folder}/snapshot.json`,
  blobs: `${folder}/blobs`,
  inbox: `${folder}/inbox`,
  /** Where a sender writes before it links: on the same file system, hidden. */
  inboxStaging: `${folder}/inbox/.tmp`,
  inboxFiles: `${folder}/inbox/.files`,
  /** Created and removed by a program that changed a file outside the inbox, so that the daemon checks the session. */
  wakeFile: `${folder}/inbox/.wake`,
  outbox: `${folder}/outbox`,
  outboxStaging: `${folder}/outbox/.tmp`,
  outboxRead: `${folder}/outbox/read`,
  plan: `${folder}/plan.json`,
  plans: `${folder}/plans`,
  planHistory: `${folder}/plans/history`,
  work: `${folder}/work`,
  /** One folder for each call that has not ended durably. */
  tools: `${folder}/tools`,
  /** The browser's profile and cookies, if the session used one. */
  browser: `${folder}/browser`,
  /** Calls that wait for a person, and answered ones. */
  approvals: `${folder}/approvals`,
  approvalsAnswered: `${folder}/approvals/answered`,
  /** One folder for each background command. */
  jobs: `${folder}/jobs`,
  live: `${folder}/live`,
  memory: `${folder}/MEMORY.md`,
  /** The project an editor opened the session for. */
  editor: `${folder}/editor.json`,
  done: `${folder}/done`,
  rejected: `${folder}/rejected`,
});
export type SessionPaths = ReturnType<typeof sessionPaths>;
