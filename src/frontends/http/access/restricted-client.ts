import { roleOfCommand } from '../../../client/actions/access.ts';
import type { Schedules } from '../../../client/actions/schedules.ts';
import type { Client } from '../../../client/index.ts';
import { findAnsweredCall } from '../../../client/inspect/approval-requests.ts';
import { NoSuchSchedule, NoSuchSession } from '../../../client/sessions/client-errors.ts';
import { type AccessToken, includesRole, matchesSession, type Role } from '../../../protocol/workspace/daemon-files.ts';
import { HttpProblem } from '../common/http-problem.ts';

type OutgoingMessage = Parameters<Client['send']>[1];

/**
 * The client, limited to what the holder of a token may do. Sessions that the token may not see are treated as missing:
 * lists omit them, and access throws `NoSuchSession`. What the role does not include throws a problem that names the
 * role needed. Messages are sent as the holder. Streams end once `isValid` is false. Methods are allowed one by one, so
 * that a new one is not exposed by accident.
 */
export function restrictClient(client: Client, user: AccessToken, isValid: () => boolean): Client {
  const rights = rightsOf(user, client);
  const { maySee, existing, creatable, need } = rights;
  /** A method whose first argument is an existing session. */
  const inSession =
    <A extends unknown[], R>(role: Role, method: (key: string, ...rest: A) => R) =>
    (key: string, ...rest: A): R =>
      method(existing(key, role), ...rest);
  const asAdmin =
    <A extends unknown[], R>(method: (...args: A) => R) =>
    (...args: A): R => {
      need('admin');
      return method(...args);
    };

  return {
    paths: client.paths,
    sessions: rights.sessions,
    newestSessions: (most) => client.newestSessions(client.sessions().length).filter(maySee).slice(0, most),
    folder: inSession('read', client.folder),
    sessionName: client.sessionName,
    send: async (key, message, options = {}) =>
      client.send(key, await rights.outgoing(key, message, options.mustExist), options),
    sendOnce: async (key, message, options = {}) =>
      client.sendOnce(key, await rights.outgoing(key, message, options.mustExist), options),
    upload: async (key, name, pieces) => client.upload(creatable(key), name, pieces),
    sentMessages: inSession('read', client.sentMessages),
    waitForReply: inSession('read', client.waitForReply),
    markReplyRead: inSession('send', client.markReplyRead),
    files: inSession('read', client.files),
    openFile: inSession('read', client.openFile),
    checkpoints: inSession('read', client.checkpoints),
    filesAt: inSession('read', client.filesAt),
    diffWork: inSession('read', client.diffWork),
    previewRestore: inSession('read', client.previewRestore),
    previewUndo: inSession('read', client.previewUndo),
    async *list() {
      for await (const one of client.list()) if (maySee(one.name)) yield one;
    },
    show: inSession('read', client.show),
    events: inSession('read', client.events),
    removedEventCount: inSession('read', client.removedEventCount),
    lastSeq: inSession('read', client.lastSeq),
    watch: inSession('read', (key, options) => whileValid(client.watch(key, options), isValid)),
    stream: inSession('read', (key, options) => whileValid(client.stream(key, options), isValid)),
    withChildren: inSession('read', client.withChildren),
    approvalRequest: inSession('approve', client.approvalRequest),
    approvalRequests: inSession('read', client.approvalRequests),
    allApprovalRequests: async () => (await client.allApprovalRequests()).filter(({ session }) => maySee(session)),
    editPlan: inSession('send', (key, edit) => client.editPlan(key, rights.stamped(edit))),
    rebuild: inSession('admin', client.rebuild),
    findLostEnd: inSession('admin', client.findLostEnd),
    archive: inSession('admin', client.archive),
    remove: inSession('admin', client.remove),
    rename: inSession('admin', (key, to) => client.rename(key, creatable(to))),
    forkSession: inSession('admin', (key, moment, name) => client.forkSession(key, moment, creatable(name))),
    exportSessions: async (keys) => client.exportSessions(keys.map((key) => existing(key, 'admin'))),
    importSessions: asAdmin((bytes, as) => client.importSessions(bytes, as, (name) => void creatable(name))),
    templates: client.templates,
    saveTemplate: inSession('admin', client.saveTemplate),
    daemon: client.daemon,
    settingsFault: client.settingsFault,
    settings: async (key) => {
      need('admin');
      return client.settings(key === undefined ? undefined : existing(key, 'admin'));
    },
    schedules: async () => restrictSchedules(await client.schedules(), rights, client),
    browserSocket: inSession('approve', (key) => client.browserSocket(key, user.name)),
    accessToken: asAdmin(client.accessToken),
    status: asAdmin(client.status),
    start: asAdmin(client.start),
    stop: asAdmin(client.stop),
    takeover: asAdmin(client.takeover),
  };
}

/** The schedules that send to sessions the token may see. */
function restrictSchedules(schedules: Schedules, { maySee, need }: Rights, client: Client): Schedules {
  const list = () =>
    schedules.list().filter(({ schedule }) => schedule && maySee(client.sessionName(schedule.session)));
  const known = (name: string): string => {
    if (list().some((one) => one.name === name)) return name;
    throw new NoSuchSchedule(
      name,
      list().map((one) => one.name),
    );
  };
  const named =
    <A extends unknown[], R>(role: Role, method: (name: string, ...rest: A) => R) =>
    (name: string, ...rest: A): R => {
      need(role);
      return method(known(name), ...rest);
    };
  return {
    list,
    next: named('read', schedules.next),
    history: named('read', schedules.history),
    runNow: named('send', schedules.runNow),
    enable: named('admin', schedules.enable),
    remove: named('admin', schedules.remove),
    add(name, schedule) {
      need('admin');
      if (maySee(client.sessionName(schedule.session))) return schedules.add(name, schedule);
      throw new NoSuchSession(schedule.session, client.sessions().filter(maySee));
    },
  };
}

/** What a token allows. Those from `need` to `outgoing` throw if the token does not allow it. */
type Rights = {
  maySee(name: string): boolean;
  sessions(): string[];
  need(role: Role, why?: string): void;
  /** The name of an existing session, if the token has this role. */
  existing(key: string, role: Role): string;
  /** The name of a session that may be new, if the token may see that name. */
  creatable(key: string): string;
  /** The message with the holder as its sender. Throws if it would answer a call without the role for that. */
  outgoing<M extends OutgoingMessage>(key: string, message: M, mustExist?: boolean): Promise<M>;
  /** The same with the holder as its sender, and what they may do; never more than it says already. */
  stamped<S extends Pick<OutgoingMessage, 'from' | 'rights'>>(sent: S): S;
};

function rightsOf(user: AccessToken, client: Client): Rights {
  const rights: Rights = {
    maySee: (name) => matchesSession(user.sessions, name),
    sessions: () => client.sessions().filter(rights.maySee),
    need(role, why) {
      if (!includesRole(user.role, role)) throw roleProblem(user, role, why);
    },
    existing(key, role) {
      const name = client.sessionName(key);
      if (!rights.sessions().includes(name)) throw new NoSuchSession(key, rights.sessions());
      rights.need(role);
      return name;
    },
    creatable(key) {
      const name = client.sessionName(key);
      if (!rights.maySee(name)) throw new NoSuchSession(key, rights.sessions());
      rights.need('send');
      return name;
    },
    async outgoing(key, message, mustExist) {
      const name = mustExist ? rights.existing(key, 'send') : rights.creatable(key);
      if (message.from !== undefined && message.from !== user.name) throw senderProblem(user, message.from);
      const needs = roleOfCommand(message);
      if (needs) rights.need(needs.role, needs.why);
      if (!includesRole(user.role, 'approve')) {
        const answered = await findAnsweredCall(client, name, message);
        if (answered === 'words') rights.need('approve', 'a message that could answer a waiting call');
        else if (answered) rights.need('approve', `a message that would answer the waiting call ${answered.id}`);
      }
      return rights.stamped(message);
    },
    stamped: (sent) => {
      const wanted = sent.rights?.role;
      const role = wanted !== undefined && includesRole(user.role, wanted) ? wanted : user.role;
      return { ...sent, from: user.name, rights: { role, sessions: [user.sessions] } };
    },
  };
  return rights;
}

/** Ends a stream once its token was removed. */
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
