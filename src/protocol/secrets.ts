import type { Config, Settings } from './config.ts';
import type { McpServer } from './mcp.ts';
import type { Secret } from './redact.ts';

/** `${NAME}`, `${NAME:-default}`, and `${env:NAME}` as some programs write it. */
export const VARIABLE = /\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}/g;
/** What a secret is called: in the environment, in the headers of an endpoint. */
export const SECRET_NAME = /KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL/i;

/** Where keys are looked for when no setting names a variable. */
const USUAL = ['OPENAI_API_KEY', 'BRAVE_API_KEY', 'TAVILY_API_KEY'];

/**
 * The secrets that settings name: the variables of keys, those of `secrets`, and what looks like a secret in what MCP servers are
 * given. Each under the name it has there.
 */
export function secretsIn(
  env: Readonly<Record<string, string | undefined>>,
  ...layers: Array<Config | Settings>
): Secret[] {
  const variables = layers.flatMap((layer) => [
    layer.model?.api_key_env,
    'search' in layer ? layer.search?.api_key_env : undefined,
    ...(layer.secrets ?? []),
    ...Object.values(layer.mcpServers ?? {}).flatMap(variablesOf),
  ]);
  const named = [...USUAL, ...variables].flatMap((name) => {
    const value = name === undefined ? undefined : env[name];
    return name !== undefined && value ? [{ name, value }] : [];
  });
  const given = layers.flatMap((layer) =>
    Object.entries(layer.mcpServers ?? {}).flatMap(([name, server]) => givenTo(name, server, env)),
  );
  return [...named, ...given];
}

/** Variables with the name of a secret that a server's settings leave to the environment. */
function variablesOf(server: McpServer): string[] {
  const found = [...JSON.stringify(server).matchAll(VARIABLE)].flatMap(([, name]) => name ?? []);
  return found.filter((name) => SECRET_NAME.test(name));
}

/** Of a header such as "Bearer …" the last word is the secret. */
function givenTo(name: string, { env: own, headers }: McpServer, env: Parameters<typeof secretsIn>[0]): Secret[] {
  return Object.entries({ ...own, ...headers }).flatMap(([key, text]) => {
    if (!SECRET_NAME.test(key)) return [];
    const value = text.replace(VARIABLE, (_, variable: string, fallback = '') => env[variable] || fallback);
    const called = `${name}.${key}`.replace(/[^\w.-]/g, '_');
    return [value, value.split(/\s+/).at(-1) ?? ''].map((one) => ({ name: called, value: one }));
  });
}
