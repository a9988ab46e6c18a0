import { expect, test } from 'vitest';
import { buildModelRequest } from '../../src/core/prompt/model-request.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { buildRequestBody, requestOptions } from '../../src/models/request/request-body.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { ASK_USER_TOOL, MORE_TOOLS, PLAN_TOOL, SPAWN_TOOL } from '../../src/protocol/tool-calls/own-tools.ts';
import { describeTools } from '../../src/tools/index.ts';

test('the first request with all tools is no larger than 7 kB', () => {
  const messages = [
    ...buildModelRequest(emptySession('demo'), resolveRules(), []),
    { role: 'user' as const, content: 'Append one, two and three to log.txt' },
  ];
  const own = [PLAN_TOOL, ASK_USER_TOOL, SPAWN_TOOL, ...describeTools({})];
  const line = 'x'.repeat(70);
  const others = ['jobs', 'remember', 'recall', 'schedule'].map((name) => ({ ...SPAWN_TOOL, name, line }));
  const tools = [...own, MORE_TOOLS.offering([...own, ...others])];
  const wire = messages.map((message) => Buffer.from(JSON.stringify(message)));
  const body = buildRequestBody({ model: 'm', wire, tools, schemas: 'plain', options: requestOptions(true) });
  expect(body.length).toBeGreaterThan(5000);
  expect(body.length).toBeLessThanOrEqual(7000);
});
