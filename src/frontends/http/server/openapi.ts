import { z } from 'zod';
import { ProblemBody, type ProblemStatus } from '../common/http-problem.ts';
import type { AnswerSpec, HttpOperation } from '../common/operation.ts';

type JsonSchema = Record<string, unknown>;

/** What any request may be answered with, besides what its operation names. */
const COMMON_PROBLEMS: readonly ProblemStatus[] = [400, 401, 403, 405, 422, 431, 503];

/** OpenAPI 3.1 of these operations, from the schemas that check their requests. */
export function openApiDocument(operations: readonly HttpOperation[], version: string): object {
  const paths = new Map<string, Record<string, object>>();
  for (const one of operations) paths.set(one.path, { ...paths.get(one.path), [one.method]: operationObject(one) });
  return {
    openapi: '3.1.0',
    info: {
      ...{ title: 'agentd', version },
      description: 'Sessions of a workspace: messages in, replies out, the plan in between.',
    },
    paths: Object.fromEntries(paths),
    security: [{ bearer: [] }],
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: schemaOf(ProblemBody) },
    },
  };
}

function operationObject(one: HttpOperation): object {
  const problems = [
    ...COMMON_PROBLEMS,
    ...(one.problems ?? []),
    ...(one.method === 'get' ? [] : ([413, 415] as const)),
  ];
  return {
    operationId: one.id,
    summary: one.summary,
    parameters: [
      ...parametersOf('path', one.params),
      ...parametersOf('query', one.query),
      ...parametersOf('header', one.headers),
    ],
    ...(one.body && { requestBody: requestBody(one.body) }),
    ...(one.takesFile && { requestBody: { required: true, content: { 'application/octet-stream': {} } } }),
    responses: {
      ...Object.fromEntries(Object.entries(one.answers).map(([status, answer]) => [status, answerObject(answer)])),
      ...Object.fromEntries(problems.map((status) => [status, PROBLEM])),
    },
  };
}

function parametersOf(place: 'path' | 'query' | 'header', schema: z.ZodObject | undefined): object[] {
  return Object.entries(schema?.shape ?? {}).map(([name, one]) => {
    const { description, ...rest } = schemaOf(one);
    const required = place === 'path' || !z.safeParse(one, undefined).success;
    return { name, in: place, required, ...(description !== undefined && { description }), schema: rest };
  });
}

const requestBody = (body: z.ZodType): object => ({
  // Also where nothing in it is required: a write without a content type is refused.
  required: true,
  content: { 'application/json': { schema: schemaOf(body) } },
});

const answerObject = (answer: AnswerSpec): object => ({
  description: answer.describe,
  content: 'schema' in answer ? { 'application/json': { schema: schemaOf(answer.schema) } } : { [answer.type]: {} },
});

const PROBLEM = {
  description: 'A problem (RFC 9457).',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
};

/** JSON Schema 2020-12, which OpenAPI 3.1 takes as it is. */
function schemaOf(schema: z.core.$ZodType): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest;
}
