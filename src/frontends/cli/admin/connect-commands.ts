import { formatLocalTime as localTime } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { Role } from '../../../protocol/workspace/daemon-files.ts';
import { defineCommand, EXIT_CODES, JSON_OPTION, openWorkspaceClient } from '../common/command.ts';
import { formatTable, print, printError, printJson, printNote } from '../common/terminal.ts';

export const token = defineCommand({
  usage: 'token <action> [name]',
  describe: 'Give others access over HTTP: add, list and remove their tokens',
  builder: (cli) =>
    cli
      .positional('action', { choices: ['add', 'list', 'remove'] as const, demandOption: true })
      .positional('name', { type: 'string', describe: 'Whose token it is; the sender of their messages' })
      .option('role', {
        choices: Role.options,
        default: 'send' as const,
        describe: 'add: read; send messages and edit plans too; approve calls too; admin',
      })
      .option('sessions', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'add: the name of a session they may see; "*" stands for any text; by default all',
      })
      .option('json', JSON_OPTION)
      .example('$0 token add ana --role approve --sessions "report-*"', ''),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { openAccessTokens } = await import('../../../client/actions/access.ts');
    const tokens = openAccessTokens(client.paths);
    if (args.action === 'list') {
      const all = tokens.list().map(({ sha256: _, ...shown }) => shown);
      if (args.json) printJson(all);
      else if (all.length === 0) printNote('No tokens besides .agentd/token. Add one: agentctl token add --help');
      else
        print(formatTable(all.map((one) => [one.name, one.role, one.sessions.join(' '), localTime(one.created_at)])));
      return;
    }
    const { name } = args;
    if (name === undefined)
      throw new UserError(`Expected a name: agentctl token ${args.action} <name>`, EXIT_CODES.usage.code);
    if (args.action === 'remove') {
      await tokens.remove(name);
      print(`The token of ${name} no longer works.`);
      return;
    }
    await client.accessToken();
    const added = await tokens.add({ name, role: args.role, sessions: args.sessions ?? ['*'] });
    if (args.json) printJson({ name, token: added });
    else {
      print(added);
      printNote('It is shown once and not kept. Servers that run accept it at once.');
    }
  },
});

const DEFAULT_PORT = 8377;
const PORT = { type: 'number', requiresArg: true, default: DEFAULT_PORT, coerce: parsePort } as const;
const MAX_PORT = 65_535;

export const serve = defineCommand({
  usage: 'serve',
  describe: 'Serve the workspace over HTTP on 127.0.0.1, until SIGTERM or SIGINT',
  builder: (cli) =>
    cli
      .option('port', { ...PORT, describe: 'Port to listen on; 0 picks a free one' })
      .option('socket', {
        type: 'string',
        requiresArg: true,
        describe: 'Listen on this Unix socket too; needs no token, and only you can open it',
      })
      .option('allow-host', {
        ...{ type: 'string', array: true, requiresArg: true, coerce: parseHostNames, default: [] as string[] },
        describe: 'Name by which a proxy with TLS on this machine is reached; repeatable',
      })
      .option('host', { type: 'string', requiresArg: true, hidden: true, coerce: assertLoopback })
      .option('openai', { type: 'boolean', default: false, describe: 'Serve clients of OpenAI too, below /v1' })
      .option('mcp', { type: 'boolean', default: false, describe: 'Serve clients of MCP too, as /mcp' })
      .option('ag-ui', { type: 'boolean', default: false, describe: 'Serve clients of AG-UI too, as /ag-ui' }),
  async run(args) {
    // The space for young objects would grow with a burst of requests, and stay as large while a thousand streams wait.
    (await import('node:v8')).setFlagsFromString('--semi-space-growth-factor=1');
    const client = await openWorkspaceClient(args);
    const stopped = new Promise<void>((stop) => {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop());
    });
    const { serveHttp } = await import('../../http/index.ts');
    const protocols = [
      ...(args.openai ? [(await import('../../openai/openai-routes.ts')).OPENAI_PROTOCOL] : []),
      ...(args.agUi ? [(await import('../../ag-ui/ag-ui-routes.ts')).AG_UI_PROTOCOL] : []),
      ...(args.mcp ? [(await import('../../mcp/index.ts')).mcpProtocol()] : []),
    ];
    const server = await serveHttp(client, {
      ...{ port: args.port, socket: args.socket, complain: printError, protocols, proxied: args.allowHost },
    });
    print(`SERVING ${server.url}`);
    await stopped;
    await server.close();
  },
});

function parseHostNames(names: string[]): string[] {
  const wrong = names.find((name) => !/^[a-z0-9.-]+$/i.test(name));
  if (wrong === undefined) return names.map((name) => name.toLowerCase());
  throw new Error(`--allow-host takes a name such as agentd.example.com, got ${JSON.stringify(wrong)}.`);
}

/** Others asked for a way to be reached from other machines: there are three, and each has encryption. */
function assertLoopback(host: string): string {
  if (['127.0.0.1', 'localhost'].includes(host)) return host;
  throw new Error(
    [
      `agentctl serve listens on 127.0.0.1 only, not on ${host}, since it has no TLS. To reach it from elsewhere:`,
      '  - forward the port, on the other machine: ssh -L 8377:127.0.0.1:8377 THIS-MACHINE',
      '  - or serve it in your own network: tailscale serve 8377, with --allow-host THIS-MACHINE.YOUR-NET.ts.net',
      '  - or put a proxy with TLS in front of it on this machine, with --allow-host ITS-NAME',
    ].join('\n'),
  );
}

function parsePort(value: number): number {
  if (Number.isSafeInteger(value) && value >= 0 && value <= MAX_PORT) return value;
  throw new Error(`--port takes a whole number from 0 to ${MAX_PORT}.`);
}

export const open = defineCommand({
  usage: 'open',
  describe: 'Open the page of "agentctl serve" in the browser, and print its address',
  builder: (cli) =>
    cli
      .option('port', { ...PORT, describe: 'Port of the server' })
      .option('print', { type: 'boolean', describe: 'Only print the address' })
      .epilogue('The address contains the token of the workspace: do not share it.'),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { openInBrowser, pageAddress } = await import('../common/page-address.ts');
    const { address, once } = await pageAddress(client, args.port);
    print(address);
    if (!args.print && !(await openInBrowser(once)))
      printNote('No browser could be opened. Open the address above in one on this machine.');
  },
});

export const acp = defineCommand({
  usage: 'acp',
  describe: 'Be an agent for an editor, over stdin and stdout (Agent Client Protocol)',
  builder: (cli) => cli.epilogue('The editor starts it. It starts no daemon: agentctl start'),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { serveAcp } = await import('../../acp/index.ts');
    await serveAcp(client, { input: process.stdin, output: process.stdout, complain: printNote });
  },
});

export const otel = defineCommand({
  usage: 'otel',
  describe: 'Send traces and metrics to a collector of OpenTelemetry, until SIGTERM or SIGINT',
  builder: (cli) =>
    cli
      .option('endpoint', {
        ...{ type: 'string', requiresArg: true },
        describe: 'Address of the collector, for OTLP over HTTP',
        defaultDescription: '$OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318',
      })
      .option('since', {
        ...{ type: 'string', requiresArg: true, coerce: parseSince },
        describe: 'Send what ended after this time, such as 2026-11-01; by default what is not sent yet',
      })
      .option('once', { type: 'boolean', describe: 'Send what there is, and end' })
      .example('$0 otel --endpoint http://localhost:4318', '')
      .epilogue(
        'What was said is sent only with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true. OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_HEADERS mean what they mean elsewhere. See docs/server.md.',
      ),
  async run(args) {
    const { env } = process;
    if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') {
      printNote('OTEL_SDK_DISABLED is true: nothing is sent.');
      return;
    }
    const client = await openWorkspaceClient(args);
    const { openOtlpSender } = await import('../../otel/otlp-sender.ts');
    const { followWorkspace } = await import('../../otel/follow-workspace.ts');
    const ended = new AbortController();
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => ended.abort());
    const sender = openOtlpSender(args.endpoint, env, Date.now());
    const once = args.once === true;
    if (!once) print(`SENDING ${sender.to}`);
    const content = env['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT']?.toLowerCase() === 'true';
    const settings = { sender, since: args.since, content, once, signal: ended.signal, complain: printError };
    await followWorkspace(client, settings);
  },
});

function parseSince(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const at = Date.parse(text);
  if (!Number.isNaN(at)) return at;
  throw new Error(`--since takes a time such as 2026-11-01 or 2026-11-01T08:00, got ${JSON.stringify(text)}.`);
}
