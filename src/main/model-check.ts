import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '../base/user-error.ts';
import { isServedByAgentd } from '../client/actions/settings-edit.ts';
import { ModelError, type ModelRequest } from '../engine/ports/session-ports.ts';
import type { DoctorOptions, Finding } from '../frontends/cli/common/command.ts';
import { chooseModel, isBuiltIn } from '../models/choose-model.ts';
import { type EndpointProfile, type EndpointProfiles, openProfiles } from '../models/request/endpoint-profiles.ts';
import { type EffectiveModel, OPENAI_URL } from '../protocol/settings/effective-settings.ts';
import { ASK_USER_TOOL, MORE_TOOLS, PLAN_TOOL, SPAWN_TOOL } from '../protocol/tool-calls/own-tools.ts';
import { replaceFile } from '../store/fs/durable-write.ts';
import { readTextFile } from '../store/fs/file-reads.ts';
import type { WorkspacePaths } from '../store/layout/layout.ts';
import { describeTools } from '../tools/index.ts';

/**
 * What is known of endpoints, in `.agentd/endpoints.json`: a cache, which is not written where that fails. `saved`
 * resolves once all changes are written.
 */
export function endpointProfiles({ own }: WorkspacePaths): EndpointProfiles & { saved(): Promise<void> } {
  const file = join(own, 'endpoints.json');
  let last = Promise.resolve();
  const save = async (text: string): Promise<void> => {
    // Only inside a workspace that exists.
    await mkdir(own, { mode: 0o700 }).catch(() => undefined);
    await replaceFile(file, text).catch(() => undefined);
  };
  const profiles = openProfiles(readTextFile(file), (text) => {
    last = last.then(() => save(text));
  });
  return { ...profiles, saved: () => last };
}

const QUESTION =
  'This is a test of the connection. Call the tool list_files for "." and, in the same answer, once more for "work". Write nothing else.';

/**
 * Whether the model is configured; with `ask`, whether it answers and calls the real tools, and what else is found out
 * about its endpoint, which is kept as its profile.
 */
export async function checkModel(
  settings: EffectiveModel,
  { env, ask }: DoctorOptions,
  paths: WorkspacePaths,
): Promise<Finding[]> {
  const name = settings.name ?? env['OPENAI_MODEL'] ?? '';
  const address = settings.base_url ?? env['OPENAI_BASE_URL'] ?? OPENAI_URL;
  const finding = (is: Finding['is'], text: string): Finding => ({ what: 'model', is, text });
  const profiles = endpointProfiles(paths);
  const known = (): Finding[] => {
    const text = describeProfile(profiles.get(address, name));
    return text === '' || isBuiltIn(name) ? [] : [finding('note', text)];
  };
  try {
    if (!ask && (await isServedByAgentd(address))) return [finding('wrong', ITSELF)];
    if (!ask) return [finding('ok', await checkConfigured(settings, { env, name })), ...known()];
    profiles.forget(address, name);
    const { model, calls } = await askForCalls(settings, env, profiles);
    if (isBuiltIn(name)) return [finding('ok', `${name} answers`)];
    if (calls > 0) {
      profiles.note(address, name, { tools: settings.tool_calls ?? 'native', parallel: calls > 1 });
      return [finding('ok', `${model} answers and calls tools`), ...known()];
    }
    const isText = await callsInText(settings, env);
    profiles.note(address, name, { tools: isText ? 'text' : 'none' });
    const advice = isText
      ? 'It does if they are described in words: set "model": { "tool_calls": "text" }'
      : 'Does the server support tool calls with this model? See docs/models.md';
    return [
      finding('warning', `${model} answers, but did not call the tool it was asked to call. ${advice}`),
      ...known(),
    ];
  } catch (error) {
    const isUnset = name === '' && settings.base_url === undefined && !env['OPENAI_BASE_URL'];
    if (isUnset && !ask) return [finding('note', NO_MODEL)];
    return [finding('wrong', errorText(error)), ...known()];
  } finally {
    await profiles.saved();
  }
}

/** Nothing is wrong with a machine on which none was chosen yet. */
export const NO_MODEL =
  'none is set yet, so messages will fail. Set one: agentctl start --base-url http://127.0.0.1:11434/v1 --model NAME, or see docs/models.md';

const ITSELF =
  'its endpoint is a server of agentd itself, which is refused. Set another: agentctl restart --base-url … --model NAME';

async function checkConfigured(settings: EffectiveModel, { env, name }: { env: NodeJS.ProcessEnv; name: string }) {
  // The request is aborted before anything is sent, but fails if no model is configured.
  const signal = AbortSignal.abort(new Error('not asked'));
  const request: ModelRequest = { messages: [], tools: [], model: undefined };
  const error = await chooseModel(settings, env)
    .ask(request, { signal, onText: () => {} })
    .then(
      () => undefined,
      (one: unknown) => one,
    );
  if (error instanceof ModelError) throw error;
  return `${name} is configured; not called (use --ask)`;
}

async function askForCalls(settings: EffectiveModel, env: NodeJS.ProcessEnv, profiles?: EndpointProfiles) {
  const own = [PLAN_TOOL, ASK_USER_TOOL, SPAWN_TOOL, ...describeTools(env)];
  const tools = [...own, MORE_TOOLS.offering(own)];
  const request: ModelRequest = { messages: [{ role: 'user', content: QUESTION }], tools, model: undefined };
  const options = { signal: new AbortController().signal, onText: () => {} };
  const { model, calls } = await chooseModel(settings, env, profiles).ask(request, options);
  return { model, calls: calls.length };
}

/** A second try, for models without tool calls of their own. */
async function callsInText(settings: EffectiveModel, env: NodeJS.ProcessEnv): Promise<boolean> {
  try {
    return (await askForCalls({ ...settings, tool_calls: 'text' }, env)).calls > 0;
  } catch {
    return false;
  }
}

function describeProfile({ style, images, window, streams, usage, tools, parallel }: EndpointProfile): string {
  const facts = [
    tools && `tools: ${tools}${parallel === undefined ? '' : parallel ? ', several at once' : ', one at a time'}`,
    streams !== undefined && (streams ? 'streams' : 'answers in one piece'),
    usage !== undefined && (usage ? 'reports tokens' : 'reports no tokens'),
    window !== undefined && `window ${window}`,
    images === false && 'no images',
    style &&
      `requests: ${Object.entries(style)
        .map(([key, value]) => `${key} ${value}`)
        .join(', ')}`,
  ].filter((fact) => typeof fact === 'string');
  return facts.length === 0 ? '' : `learned (.agentd/endpoints.json): ${facts.join('; ')}`;
}
