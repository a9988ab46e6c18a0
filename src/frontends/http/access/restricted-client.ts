import type { Client } from '../../../client/index.ts';
import { findAnsweredCall } from '../../../client/inspect/session-details.ts';
import { NoSuchSession } from '../../../client/sessions/client-errors.ts';
import {
  type AccessToken,
  includesRole,
  matchesSession,
  type Role,
} from '../../../protocol/workspace/access-tokens.ts';
import { HttpProblem } from '../common/http-problem.ts';

type OutgoingMessage = Parameters<Client['send']>[1];

/**
 * The client as the holder of a token may use it. Sessions that the token may not see do not exist: they are missing
 * from lists and throw `NoSuchSession`. What its role does not include throws a problem that says which role does.
 * Messages are from its holder. Streams end once `isValid` is false. Every method is decided on here, one by one.
 */
export function restrictClient(client: Client, user: AccessToken, isValid: () => boolean): Client {
  const maySee = (name: string): boolean => matchesSession(user.sessions, name);
  const sessions = (): string[] => client.sessions().filter(maySee);
  const need = (role: Role, why?: string): void => {
    if (!includesRole(user.role, role)) throw roleProblem(user, role, why);
  };
  const visible = (key: string): string => {
    const name = client.sessionName(key);
    if (!sessions().includes(name)) throw new NoSuchSession(key, sessions());
    return name;
  };
  /** A method whose first argument is an existing session. */
  const inSession =
    <A extends unknown[], R>(role: Role, method: (key: string, ...rest: A) => R) =>
    (key: string, ...rest: A): R => {
      const name = visible(key);
      need(role);
      return method(name, ...rest);
    };
  const asAdmin =
    <A extends unknown[], R>(method: (...args: A) => R) =>
    (...args: A): R => {
      need('admin');
      return method(...args);
    };
  /** The name of a session that may be created, under the names that the token may see. */
  const creatable = (key: string): string => {
    const name = client.sessionName(key);
    if (!maySee(name)) throw new NoSuchSession(key, sessions());
    need('send');
    return name;
  };
  const outgoing = async <M extends OutgoingMessage>(key: string, message: M, mustExist?: boolean): Promise<M> => {
    const name = mustExist ? visible(key) : creatable(key);
    need('send');
    if (message.from !== undefined && message.from !== user.name) throw senderProblem(user, message.from);
    if (!includesRole(user.role, 'approve')) {
      const answered = await findAnsweredCall(client, name, message);
      if (answered === 'words') throw roleProblem(user, 'approve', 'words that could answer a call that waits');
      if (answered) throw roleProblem(user, 'approve', `a message that would answer call ${answered.id}, which waits`);
    }
    return { ...message, from: user.name };
  };
  const ofVisible = <T extends { session: string }>(all: T[]): T[] => all.filter(({ session }) => maySee(session));

  return {
    paths: client.paths,
    sessions,
    newestSessions: (most) => client.newestSessions(client.sessions().length).filter(maySee).slice(0, most),
    folder: inSession('read', client.folder),
    sessionName: client.sessionName,
    send: async (key, message, options = {}) =>
      client.send(key, await outgoing(key, message, options.mustExist), options),
    sendOnce: async (key, message, options = {}) =>
      client.sendOnce(key, await outgoing(key, message, options.mustExist), options),
    upload: async (key, name, pieces) => client.upload(creatable(key), name, pieces),
    sentMessages: inSession('read', client.sentMessages),
    waitForReply: inSession('read', client.waitForReply),
    markReplyRead: inSession('send', client.markReplyRead),
    files: inSession('read', client.files),
    openFile: inSession('read', client.openFile),
    async *list() {
      for await (const one of client.list()) if (maySee(one.name)) yield one;
    },
    show: inSession('read', client.show),
    events: inSession('read', client.events),
    removedEventCount: inSession('read', client.removedEventCount),
    lastSeq: inSession('read', client.lastSeq),
    watch: inSession('read', (key, signal) => whileValid(client.watch(key, signal), isValid)),
    stream: inSession('read', (key, options) => whileValid(client.stream(key, options), isValid)),
    withChildren: inSession('read', client.withChildren),
    approvalRequest: inSession('approve', client.approvalRequest),
    approvalRequests: inSession('read', client.approvalRequests),
    allApprovalRequests: async () => ofVisible(await client.allApprovalRequests()),
    savePlan: inSession('send', client.savePlan),
    rebuild: inSession('admin', client.rebuild),
    archive: inSession('admin', client.archive),
    remove: inSession('admin', client.remove),
    rename: inSession('admin', (key, to) => client.rename(key, creatable(to))),
    templates: client.templates,
    saveTemplate: inSession('admin', client.saveTemplate),
    daemon: client.daemon,
    settingsFault: client.settingsFault,
    settings: async (key) => {
      need('admin');
      return client.settings(key === undefined ? undefined : visible(key));
    },
    accessToken: asAdmin(client.accessToken),
    status: asAdmin(client.status),
    start: asAdmin(client.start),
    stop: asAdmin(client.stop),
    takeover: asAdmin(client.takeover),
  };
}

/** A token that was removed ends the streams that are open with it. */
async function* whileValid<T>(updates: AsyncGenerator<T>, isValid: () => boolean): AsyncGenerator<T> {
  for await (const update of updates) {
    if (!isValid()) return;
    yield update;
  }
}

const roleProblem = ({ name, role }: AccessToken, wanted: Role, why?: string): HttpProblem =>
  new HttpProblem(403, {
    wanted: `a token with the role ${JSON.stringify(wanted)}`,
    came: `${why === undefined ? 'one' : `${why}, from one`} with the role ${JSON.stringify(role)} (${name})`,
    todo: 'Ask the owner of the workspace for another token: agentctl token add',
  });

const senderProblem = ({ name }: AccessToken, came: string): HttpProblem =>
  new HttpProblem(403, {
    wanted: `messages from ${JSON.stringify(name)}, whose token this is`,
    came: `one from ${JSON.stringify(came)}`,
    todo: 'Leave out "from".',
  });
