// Reads a JSON list of texts from standard input and prints what dotenv reads in each.
import { readFileSync } from "node:fs";
import dotenv from "dotenv";

const texts = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => dotenv.parse(text))));
