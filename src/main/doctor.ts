import * as fs from 'node:fs';
import { parseJson } from '../base/json.ts';
import { formatLocalTime } from '../base/strings.ts';
import { errorText } from '../base/user-error.ts';
import { type Client, openClient } from '../client/index.ts';
import { commandLine } from '../client/sessions/client-errors.ts';
import type { DoctorOptions, Finding } from '../frontends/cli/common/command.ts';
import { versionWithCommit } from '../frontends/command-line.ts';
import type { CheckpointLimits } from '../protocol/settings/checkpoint-limits.ts';
import type { Config } from '../protocol/settings/config.ts';
import { resolveSettings } from '../protocol/settings/effective-settings.ts';
import { measureCheckpoints, openSkillStore, sessionPaths } from '../store/index.ts';
import { inspectJobs } from '../tools/jobs/job-store.ts';
import {
  checkBrowser,
  checkConfiguration,
  checkDisk,
  checkLock,
  checkMcpServers,
  checkNode,
  checkSandbox,
  checkSessionSettingsFiles,
  checkShell,
  checkWatches,
  describeEnvironment,
  excuseRunningDaemon,
} from './doctor-checks.ts';
import { checkModel } from './model-check.ts';

/** Checks everything a daemon needs and changes nothing. Only with `ask` is anything sent over the network. */
export async function runDoctor(question: DoctorOptions): Promise<Finding[]> {
  const { client, sessions } = openForChecks(question.root);
  const config = checkConfiguration(question, client);
  const effective = resolveSettings({ flags: question.flags, env: question.env, workspace: config.value });
  return [
    { what: 'agentd', is: 'ok', text: versionWithCommit() },
    checkNode(),
    ...checkWorkspace(client),
    ...sessions,
    ...config.findings,
    ...checkDisk(client.paths),
    ...checkCheckpoints(client, effective.checkpoints),
    ...checkMcpServers(config.value.mcpServers, question.env),
    ...checkMcpFile(client, config.value),
    ...checkSessionSettingsFiles(client, question, config.value),
    ...checkSkills(client),
    ...(await checkSessionLogs(client)),
    ...listRunningJobs(client),
    checkLock(question.env, client),
    checkDaemon(client),
    checkWatches(client),
    describeEnvironment(client, question),
    ...(await checkModel(effective.model, question, client.paths)).map((one) =>
      excuseRunningDaemon(client, question, one),
    ),
    checkShell(question.env),
    checkBrowser(config.value.browser?.executable, question.env),
    ...(await checkSandbox(question, effective.sandbox)),
  ];
}

/** Where the sessions cannot be read, that is a finding, and everything else is checked without them. */
function openForChecks(root: string): { client: Client; sessions: Finding[] } {
  const client = openClient(root);
  try {
    client.sessions();
    return { client, sessions: [] };
  } catch (error) {
    const sessions: Finding[] = [{ what: 'sessions', is: 'wrong', text: errorText(error) }];
    return { client: { ...client, sessions: () => [], async *list() {} }, sessions };
  }
}

function checkWorkspace({ paths: { root } }: Client): Finding[] {
  const finding = (is: Finding['is'], text: string): Finding[] => [{ what: 'workspace', is, text }];
  const stat = fs.statSync(root, { throwIfNoEntry: false });
  if (!stat) return finding('note', `${root} does not exist yet; it is created on first use`);
  const mode = (stat.mode & 0o777).toString(8);
  if ((stat.mode & 0o022) !== 0) {
    return finding(
      'wrong',
      `others may write to ${root} (mode ${mode}), and messages dropped there are run: chmod 700 ${root}`,
    );
  }
  try {
    fs.accessSync(root, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
  } catch {
    return finding('wrong', `this user cannot write to ${root} (mode ${mode}). Run as its owner.`);
  }
  const isOpen = (stat.mode & 0o044) !== 0;
  return finding(
    isOpen ? 'warning' : 'ok',
    `${root} (mode ${mode}${isOpen ? `; others may read it: chmod 700 ${root}` : ''})`,
  );
}

/** What the checkpoints of all sessions take; no finding where there are none. */
function checkCheckpoints(client: Client, { maxWorkspaceBytes }: CheckpointLimits): Finding[] {
  const sizes = client
    .sessions()
    .map((name) => ({ name, ...measureCheckpoints(sessionPaths(client.paths.session(name))) }));
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
  const [largest] = sizes.sort((one, other) => other.bytes - one.bytes);
  if (!largest || total === 0) return [];
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  const isOver = total > maxWorkspaceBytes;
  const text = `those of work/ take ${megabytes(total)}, most in ${largest.name} (${megabytes(largest.bytes)})${isOver ? '; that is more than checkpoints.max_workspace_mb, so the oldest are removed while sessions are idle' : ''}`;
  return [{ what: 'checkpoints', is: isOver ? 'warning' : 'ok', text }];
}

/** Entries name programs to run, so they count only once a person has imported them. */
function checkMcpFile({ paths }: Client, { mcpServers = {} }: Config): Finding[] {
  const path = `${paths.root}/.mcp.json`;
  if (!fs.existsSync(path)) return [];
  const names = Object.keys(Object(Object(parseJson(fs.readFileSync(path, 'utf8')))['mcpServers']));
  const left = names.filter((name) => !Object.hasOwn(mcpServers, name));
  const text = `${path} names servers that agentd.json has not: ${left.join(', ')}. To look at them and take them: ${commandLine(paths.root, ['mcp', 'import'])}`;
  return left.length > 0 ? [{ what: 'mcp', is: 'note', text }] : [];
}

/** No finding for a workspace without skills. */
function checkSkills({ paths }: Client): Finding[] {
  const { skills: found, broken } = openSkillStore(paths.skills).list();
  const names = found.map(({ name }) => name).join(', ');
  return [
    ...(found.length > 0 ? [{ what: 'skills', is: 'ok' as const, text: names }] : []),
    ...broken.map((text) => ({ what: 'skills', is: 'warning' as const, text })),
  ];
}

/** The daemon does not serve a session whose event log is damaged. */
async function checkSessionLogs(client: Client): Promise<Finding[]> {
  const findings: Finding[] = [];
  for await (const { name, problem } of client.list())
    if (problem !== null) findings.push({ what: 'session', is: 'wrong', text: `${name} cannot be read: ${problem}` });
  return findings;
}

/** Jobs run with or without a daemon, so they are easy to overlook. */
function listRunningJobs(client: Client): Finding[] {
  return client.sessions().flatMap((name): Finding[] => {
    const running = inspectJobs(sessionPaths(client.paths.session(name)).jobs)
      .lines()
      .filter((job) => job.running);
    return running.map(({ id, command }) => ({ what: 'job', is: 'note', text: `${name}: ${id} runs: ${command}` }));
  });
}

function checkDaemon(client: Client): Finding {
  const owner = client.daemon();
  const text = owner
    ? `running: process ${owner.pid}, since ${formatLocalTime(owner.at)}`
    : `not running; start it with: ${commandLine(client.paths.root, ['start'])}`;
  return { what: 'daemon', is: owner ? 'ok' : 'note', text };
}
