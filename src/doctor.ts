import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { type Client, openClient } from './client/index.ts';
import { disk } from './doctor-disk.ts';
import { mcp } from './doctor-mcp.ts';
import { sandbox } from './doctor-sandbox.ts';
import { ModelFault } from './engine/ports.ts';
import type { Finding, Question } from './frontends/cli/command.ts';
import { chooseModel } from './models/index.ts';
import type { Config, ModelSettings } from './protocol/config.ts';
import { effectiveSettings } from './protocol/effective.ts';
import { errorText, UserError } from './protocol/errors.ts';
import { withSafePath } from './protocol/program-path.ts';
import { checkConfig, checkSettings, openSkills, sessionPaths } from './store/index.ts';
import { lockInWords } from './store/owner.ts';
import { findBrowser } from './tools/index.ts';
import { jobsOf } from './tools/jobs/people.ts';

const WATCH_LIMIT = '/proc/sys/fs/inotify/max_user_watches';
/** Watches of other programs of this user that are left room for. */
const SPARE_WATCHES = 1000;
const OLDEST_NODE = [20, 19] as const;

/** Looks at everything a daemon would need, and leaves nothing changed. Only with `ask` is anything sent anywhere. */
export async function examine(question: Question): Promise<Finding[]> {
  const client = openClient(question.root);
  const config = configuration(question, client);
  const effective = effectiveSettings({ flags: question.flags, env: question.env, workspace: config.value });
  return [
    node(),
    ...workspace(client),
    ...config.findings,
    ...disk(client.paths),
    ...mcp(config.value.mcpServers, question.env),
    ...sessionSettings(client, question.env),
    ...skills(client),
    ...(await records(client)),
    ...jobs(client),
    lock(question.env, client),
    daemon(client),
    watches(client),
    beside(client, question, await model(effective.model, question)),
    shell(question.env),
    browser(config.value.browser?.executable, question.env),
    ...(await sandbox(question, effective.sandbox)),
  ];
}

function node(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isNew = major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
  const text = `${process.version}${isNew ? '' : `; wanted: ${OLDEST_NODE.join('.')} or newer`}`;
  return { what: 'node', is: isNew ? 'ok' : 'wrong', text };
}

function workspace({ paths: { root } }: Client): Finding[] {
  const finding = (is: Finding['is'], text: string): Finding[] => [{ what: 'workspace', is, text }];
  const stat = fs.statSync(root, { throwIfNoEntry: false });
  if (!stat) return finding('note', `${root} is not there yet; it is made at the first use`);
  if (!stat.isDirectory()) return finding('wrong', `${root} is no folder. Move it away, or name another workspace.`);
  const mode = (stat.mode & 0o777).toString(8);
  if ((stat.mode & 0o022) !== 0) {
    return finding(
      'wrong',
      `others may write to ${root} (mode ${mode}), and what is dropped there is run: chmod 700 ${root}`,
    );
  }
  try {
    fs.accessSync(root, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
  } catch {
    return finding('wrong', `this user may not write to ${root} (mode ${mode}). Run as its owner.`);
  }
  const isOpen = (stat.mode & 0o044) !== 0;
  return finding(
    isOpen ? 'warning' : 'ok',
    `${root} (mode ${mode}${isOpen ? `; others may read it: chmod 700 ${root}` : ''})`,
  );
}

function configuration({ configFile }: Question, { paths }: Client): { findings: Finding[]; value: Config } {
  const file = configFile ?? paths.config;
  try {
    const text = textOf(file);
    if (text === undefined && configFile !== undefined) throw new Error(`${file} is not there.`);
    const { value, warnings } = checkConfig(text, file);
    const findings: Finding[] = warnings.map((warning) => ({ what: 'configuration', is: 'warning', text: warning }));
    const found = text === undefined ? `no ${file}; defaults are in force` : file;
    if (findings.length === 0) findings.push({ what: 'configuration', is: 'ok', text: found });
    return { findings, value };
  } catch (error) {
    return { findings: [{ what: 'configuration', is: 'wrong', text: errorText(error) }], value: {} };
  }
}

function sessionSettings(client: Client, env: NodeJS.ProcessEnv): Finding[] {
  return client.sessions().flatMap((name): Finding[] => {
    const file = sessionPaths(client.paths.session(name)).settings;
    try {
      const { value, warnings } = checkSettings(textOf(file), file);
      const odd = warnings.map((text): Finding => ({ what: 'settings', is: 'warning', text }));
      return [...odd, ...mcp(value.mcpServers, env)];
    } catch (error) {
      return [{ what: 'settings', is: 'wrong', text: errorText(error) }];
    }
  });
}

/** Nothing is said of a workspace without skills. */
function skills({ paths }: Client): Finding[] {
  const { skills: found, broken } = openSkills(paths.skills).list();
  const names = found.map(({ name }) => name).join(', ');
  return [
    ...(found.length > 0 ? [{ what: 'skills', is: 'ok' as const, text: names }] : []),
    ...broken.map((text) => ({ what: 'skills', is: 'warning' as const, text })),
  ];
}

/** A session whose record cannot be trusted is let alone by the daemon. */
async function records(client: Client): Promise<Finding[]> {
  const findings: Finding[] = [];
  for await (const { name, problem } of client.list())
    if (problem !== null) findings.push({ what: 'session', is: 'wrong', text: `${name} cannot be read: ${problem}` });
  return findings;
}

/** They run whether or not a daemon does, so nobody else may think of them. */
function jobs(client: Client): Finding[] {
  return client.sessions().flatMap((name): Finding[] => {
    const running = jobsOf(sessionPaths(client.paths.session(name)).jobs)
      .lines()
      .filter((job) => job.running);
    return running.map(({ id, command }) => ({ what: 'job', is: 'note', text: `${name}: ${id} runs: ${command}` }));
  });
}

/** What a daemon that is started now would use, or what the one that runs uses. */
function lock(env: NodeJS.ProcessEnv, client: Client): Finding {
  const here = isProgram('flock', env) ? 'flock' : isProgram('perl', env) ? 'perl' : 'folder';
  const is = client.daemon()?.lock ?? here;
  return { what: 'lock', is: is === 'folder' ? 'warning' : 'ok', text: lockInWords(is) };
}

function daemon(client: Client): Finding {
  const owner = client.daemon();
  const text = owner
    ? `running: process ${owner.pid}, since ${owner.at}`
    : 'none is running; start one with: agentctl start';
  return { what: 'daemon', is: owner ? 'ok' : 'note', text };
}

function watches(client: Client): Finding {
  const sessions = client.sessions().length;
  const limit = Number(textOf(WATCH_LIMIT) ?? Number.NaN);
  if (Number.isNaN(limit))
    return { what: 'watches', is: 'ok', text: `${sessions} sessions; this system tells no limit` };
  const isEnough = sessions + SPARE_WATCHES <= limit;
  const advice = '; inboxes beyond it are polled every second. Raise it: sysctl fs.inotify.max_user_watches=524288';
  const text = `${sessions} sessions, ${limit} watches allowed${isEnough ? '' : advice}`;
  return { what: 'watches', is: isEnough ? 'ok' : 'warning', text };
}

/** An aborted question is refused before anything is sent, yet only where there is somebody to ask. */
async function model(settings: ModelSettings, { env, ask }: Question): Promise<Finding> {
  const signal = ask ? new AbortController().signal : AbortSignal.abort(new Error('not asked'));
  const request = {
    messages: [{ role: 'user' as const, content: 'Answer with one word: ready' }],
    tools: [],
    model: undefined,
  };
  const name = settings.name ?? env['OPENAI_MODEL'] ?? '';
  try {
    const answer = await chooseModel(settings, env).ask(request, { signal, onText: () => {} });
    return { what: 'model', is: 'ok', text: `${answer.model} answers` };
  } catch (error) {
    if (signal.aborted && !(error instanceof ModelFault)) {
      return { what: 'model', is: 'ok', text: `${name} is configured; it was not called (--ask does)` };
    }
    return { what: 'model', is: 'wrong', text: errorText(error) };
  }
}

/** A daemon that runs may have been started with flags that name a model; only it knows them. */
function beside(client: Client, { flags, ask }: Question, finding: Finding): Finding {
  if (finding.is !== 'wrong' || ask || flags.name !== undefined || !client.daemon()) return finding;
  const text = `the flags of the running daemon are not known here; without them: ${finding.text}`;
  return { ...finding, is: 'note', text };
}

function shell(env: NodeJS.ProcessEnv): Finding {
  if (isProgram('bash', env)) return { what: 'shell', is: 'ok', text: 'bash' };
  return { what: 'shell', is: 'warning', text: 'no bash here; commands are run with sh' };
}

function browser(named: string | undefined, env: NodeJS.ProcessEnv): Finding {
  try {
    return { what: 'browser', is: 'ok', text: findBrowser(named, env) };
  } catch (error) {
    return { what: 'browser', is: named === undefined ? 'note' : 'wrong', text: errorText(error) };
  }
}

const isProgram = (name: string, env: NodeJS.ProcessEnv): boolean =>
  !spawnSync(name, ['--version'], { env: withSafePath(env), cwd: '/' }).error;

function textOf(path: string): string | undefined {
  const stat = fs.statSync(path, { throwIfNoEntry: false });
  if (stat?.isDirectory()) throw new UserError(`${path} is a folder, where a file was expected. Move it away.`);
  return stat && fs.readFileSync(path, 'utf8');
}
