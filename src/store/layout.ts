import { join } from 'node:path';

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
  session: (name: string) => join(root, '.sessions', name),
  /** The daemon's own. */
  own: join(root, '.agentd'),
  lock: join(root, '.agentd', 'lock'),
  owner: join(root, '.agentd', 'owner.json'),
  log: join(root, '.agentd', 'daemon.log'),
  /** What the daemon sees and cannot serve, for whoever asks. */
  status: join(root, '.agentd', 'status.json'),
  /** Room kept for the last records on a full disk. */
  reserve: join(root, '.agentd', 'reserve'),
  schemas: join(root, '.agentd', 'schemas'),
});
export type WorkspacePaths = ReturnType<typeof workspacePaths>;

/** Every path of one session. Pure: nothing is looked at or made. */
export const sessionPaths = (folder: string) => ({
  folder,
  settings: join(folder, 'session.json'),
  /** The record: the segment that is written to, and the sealed ones before it. */
  events: join(folder, 'events.jsonl'),
  sealed: join(folder, 'events'),
  segment: (number: number) => join(folder, 'events', `${String(number).padStart(6, '0')}.jsonl`),
  /** The snapshot that stands for segments which retention removed. */
  base: join(folder, 'events', 'base.json'),
  /** What retention removed. */
  swept: join(folder, 'retention.json'),
  /** Bytes cut off the end of the record at `offset`. */
  torn: (offset: number) => join(folder, `events.torn-${offset}`),
  snapshot: join(folder, 'snapshot.json'),
  blobs: join(folder, 'blobs'),
  inbox: join(folder, 'inbox'),
  /** Where a sender writes before it links: on the same file system, out of sight. */
  inboxStaging: join(folder, 'inbox', '.tmp'),
  inboxFiles: join(folder, 'inbox', '.files'),
  outbox: join(folder, 'outbox'),
  outboxStaging: join(folder, 'outbox', '.tmp'),
  outboxRead: join(folder, 'outbox', 'read'),
  plan: join(folder, 'plan.json'),
  plans: join(folder, 'plans'),
  planHistory: join(folder, 'plans', 'history'),
  work: join(folder, 'work'),
  /** A folder for each call that has not ended durably. */
  tools: join(folder, 'tools'),
  live: join(folder, 'live'),
  memory: join(folder, 'MEMORY.md'),
  done: join(folder, 'done'),
  rejected: join(folder, 'rejected'),
});
export type SessionPaths = ReturnType<typeof sessionPaths>;
