import { detectionCases } from './detection-cases.ts';

detectionCases('timeout');
