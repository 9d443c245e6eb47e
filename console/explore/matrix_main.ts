import { answerConfined } from "../rack/own/answer.ts";
import { exploreCell, type MatrixPlace } from "./matrix.ts";

if (import.meta.main) await answerConfined((place: MatrixPlace) => exploreCell(place));
